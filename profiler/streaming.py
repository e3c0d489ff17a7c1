"""A job of the command line that the page of this machine can follow: its report so far, written every few seconds."""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from profiler.documents import Options
from profiler.live import REPORT_NAME, announce
from profiler.partial import partial_report
from profiler.plan_request import Prepared
from profiler.report_file import write_report
from profiler.report_parts import Program
from profiler.runner import Job

EVERY_S: Final = 2.0


@contextmanager
def streamed(
    job: Job,
    prepared: Prepared,
    options: Options,
    name: str,
    *,
    shown: bool = True,
    data: Path | None = None,
    every_s: float = EVERY_S,
) -> Iterator[None]:
    """While inside, `profiler.live.listed` has the job, with the phases that it has measured so far.

    Args:
        job: The job.
        prepared: What it runs.
        options: How it measures.
        name: Of the scenario, for display.
        shown: Whether it is to be listed; of several ranks the first one is.
        data: The user's data folder, None for this system's.
        every_s: Seconds between two reports.
    """
    if not shown:
        yield
        return
    over = threading.Event()
    with tempfile.TemporaryDirectory(prefix="headroom-run-", ignore_cleanup_errors=True) as folder:
        program = Program(way="run", name=Path(name).name[:300])
        with announce(Path(folder), program, data) as told:

            def write() -> None:
                while not over.wait(every_s):
                    told.beat()
                    seen = job.snapshot()
                    report = partial_report(
                        seen, prepared.scenario, prepared.config, options, prepared.predicted_bytes
                    )
                    if report is not None:
                        with suppress(OSError):
                            write_report(report.model_copy(update={"remarks": ()}), Path(folder, REPORT_NAME))

            thread = threading.Thread(target=write, name="profiler-stream", daemon=True)
            thread.start()
            try:
                yield
            finally:
                over.set()
                thread.join()
