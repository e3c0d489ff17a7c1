"""Where checking by tracing stands: one state out of the question, the newest job and what is kept. Pure."""

from enum import StrEnum
from typing import Final

from profiler.job_types import ExitReason, Snapshot

MISSING_PACKAGE_EXIT: Final = 4
"""Exit code of `profiler.trace.child` where PyTorch or transformers is missing."""


class State(StrEnum):
    """What the section shows. The first four are before a start; from `STOPPED` on it ended without a trace."""

    NOT_TRAINING = "not_training"
    REFUSED = "refused"
    READY = "ready"
    BUSY = "busy"
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    TIMEOUT = "timeout"
    ABANDONED = "abandoned"
    MEMORY_LIMIT = "memory_limit"
    CRASHED = "crashed"
    MISSING_PACKAGE = "missing_package"
    COULD_NOT_START = "could_not_start"
    REFUSED_BY_CHILD = "refused_by_child"


UNDER_WAY: Final = frozenset({State.RUNNING, State.STOPPING, State.BUSY})
ENDED_WITHOUT_RESULT: Final = frozenset(
    {
        State.STOPPED,
        State.TIMEOUT,
        State.ABANDONED,
        State.MEMORY_LIMIT,
        State.CRASHED,
        State.MISSING_PACKAGE,
        State.COULD_NOT_START,
        State.REFUSED_BY_CHILD,
    }
)
QUIET: Final = frozenset({State.STOPPED, State.ABANDONED})
"""Ends that are nobody's fault."""

_REASONS: Final = {
    ExitReason.DONE: State.DONE,
    ExitReason.STOPPED: State.STOPPED,
    ExitReason.TIMEOUT: State.TIMEOUT,
    ExitReason.ABANDONED: State.ABANDONED,
    ExitReason.OUT_OF_MEMORY: State.MEMORY_LIMIT,
    ExitReason.COULD_NOT_START: State.COULD_NOT_START,
    ExitReason.REFUSED: State.REFUSED_BY_CHILD,
}


def of_job(seen: Snapshot, *, mine: bool) -> State:
    """Where a job stands, for whoever started it or for somebody else."""
    if not seen.is_over:
        if not mine:
            return State.BUSY
        return State.STOPPING if seen.state == "stopping" else State.RUNNING
    if seen.exit_code == MISSING_PACKAGE_EXIT:
        return State.MISSING_PACKAGE
    return _REASONS.get(seen.reason, State.CRASHED) if seen.reason is not None else State.CRASHED
