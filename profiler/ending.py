"""A request to end this process, as launchers send to all ranks when one has failed: the job gets time to report."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from profiler.runner import Job

GRACE_S: Final = 15.0
"""Launchers kill what has not ended 30 s after the request (torch.distributed.elastic's default)."""


@contextmanager
def ended_from_outside(job: Job, grace_s: float = GRACE_S) -> Iterator[None]:
    """While inside, a request to end stops the job, but not before it had time to write what it measured."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(*_: Any) -> None:
        timer = threading.Timer(grace_s, job.stop)
        timer.daemon = True
        timer.start()

    before = signal.signal(signal.SIGTERM, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
