"""What the page sees of a job: immutable values, read at any moment from any thread."""

from dataclasses import dataclass
from enum import StrEnum

from profiler.documents import Remark
from profiler.events import PhasePeak, Progress, Sample, Started
from profiler.report import Report


class JobState(StrEnum):
    """Where a job is."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class ExitReason(StrEnum):
    """How a job ended.

    `DONE` includes a step that ran out of device memory: that is a result, see `Report.outcome`.
    `OUT_OF_MEMORY` is the child's own host memory limit. `ABANDONED`: nobody looked at the job any more.
    """

    DONE = "done"
    STOPPED = "stopped"
    TIMEOUT = "timeout"
    ABANDONED = "abandoned"
    OUT_OF_MEMORY = "out_of_memory"
    CRASHED = "crashed"
    COULD_NOT_START = "could_not_start"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A job at one moment.

    Attributes:
        state: See `JobState`.
        reason: How it ended, None before.
        detail: Text behind the reason (an exception's message), empty for none.
        remarks: Fields at fault where it was refused.
        started_at: Start, UTC, ISO 8601.
        elapsed_s: Seconds since the start, up to the end.
        silent_s: Seconds since the child was last heard, None before its first word and after the end.
        pid: Process id of the child, None if it never started.
        started: What the child told about itself, None before.
        progress: The newest progress, None before.
        samples: Newest readings, oldest first.
        peaks: Peaks of the measured phases so far.
        report: The report, None before it is there.
        report_problem: Why the child's report could not be read, empty if it could.
        log: Newest lines that were no events (standard output), oldest first.
        stderr: Newest lines of standard error, oldest first.
        exit_code: Exit code, None while running; on POSIX a signal shows in `signal` instead.
        signal: Name of the signal that ended the child (POSIX), empty for none.
    """

    state: JobState
    reason: ExitReason | None = None
    detail: str = ""
    remarks: tuple[Remark, ...] = ()
    started_at: str
    elapsed_s: float = 0.0
    silent_s: float | None = None
    pid: int | None = None
    started: Started | None = None
    progress: Progress | None = None
    samples: tuple[Sample, ...] = ()
    peaks: tuple[PhasePeak, ...] = ()
    report: Report | None = None
    report_problem: str = ""
    log: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()
    exit_code: int | None = None
    signal: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the child is gone and nothing will change any more."""
        return self.state is JobState.ENDED
