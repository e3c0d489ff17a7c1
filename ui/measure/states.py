"""Where the page stands: one state out of the machine, the question and the newest job. Pure."""

from enum import StrEnum
from typing import Final

from profiler.job_types import ExitReason, Snapshot
from profiler.plan_request import Prepared

NO_DEVICE_EXIT: Final = 6
MISSING_PACKAGE_EXIT: Final = 4
"""Exit codes of `profiler.worker` for what the machine lacks."""


class State(StrEnum):
    """What the page shows. The first six are before a start, `DONE` and `OUT_OF_MEMORY` have a report."""

    NO_PYTORCH = "no_pytorch"
    REFUSED = "refused"
    TOO_LARGE = "too_large"
    BUSY = "busy"
    READY = "ready"
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    OUT_OF_MEMORY = "out_of_memory"
    MEMORY_LIMIT = "memory_limit"
    STOPPED = "stopped"
    TIMEOUT = "timeout"
    ABANDONED = "abandoned"
    CRASHED = "crashed"
    NO_CUDA = "no_cuda"
    MISSING_PACKAGE = "missing_package"
    COULD_NOT_START = "could_not_start"
    REFUSED_BY_WORKER = "refused_by_worker"


ENDED_WITHOUT_RESULT: Final = frozenset(
    {
        State.MEMORY_LIMIT,
        State.STOPPED,
        State.TIMEOUT,
        State.ABANDONED,
        State.CRASHED,
        State.NO_CUDA,
        State.MISSING_PACKAGE,
        State.COULD_NOT_START,
        State.REFUSED_BY_WORKER,
    }
)
SMALLER_HELPS: Final = frozenset({State.MEMORY_LIMIT, State.TIMEOUT, State.CRASHED})
"""Ends after which a smaller step is worth offering."""

_REASONS: Final = {
    ExitReason.STOPPED: State.STOPPED,
    ExitReason.TIMEOUT: State.TIMEOUT,
    ExitReason.ABANDONED: State.ABANDONED,
    ExitReason.OUT_OF_MEMORY: State.MEMORY_LIMIT,
    ExitReason.COULD_NOT_START: State.COULD_NOT_START,
    ExitReason.REFUSED: State.REFUSED_BY_WORKER,
}
_EXITS: Final = {NO_DEVICE_EXIT: State.NO_CUDA, MISSING_PACKAGE_EXIT: State.MISSING_PACKAGE}


def before_start(prepared: Prepared, *, torch: str) -> State:
    """Whether the question can be measured here.

    Args:
        prepared: The question made ready for the device.
        torch: Version of PyTorch, empty where it is not installed.
    """
    if not torch:
        return State.NO_PYTORCH
    if prepared.refused:
        return State.REFUSED
    return State.TOO_LARGE if prepared.too_large is not None else State.READY


def of_job(seen: Snapshot, *, mine: bool) -> State:
    """Where a job stands, for whoever started it or for somebody else."""
    if not seen.is_over:
        if not mine:
            return State.BUSY
        return State.STOPPING if seen.state == "stopping" else State.RUNNING
    if seen.reason is ExitReason.DONE and seen.report is not None:
        return State.DONE if seen.report.outcome == "completed" else State.OUT_OF_MEMORY
    if seen.reason in _REASONS:
        return _REASONS[seen.reason]
    return _EXITS.get(seen.exit_code or 0, State.CRASHED)
