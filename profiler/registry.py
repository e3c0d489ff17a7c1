"""One measurement per device at a time, whoever asks."""

import atexit
import contextlib
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass

from profiler.job_types import Snapshot
from profiler.runner import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """The device is taken.

    Attributes:
        device: Key of the device.
        owner: Who started the job that runs there.
        started_at: When, UTC, ISO 8601.
    """

    device: str
    owner: str
    started_at: str


@dataclass(frozen=True, slots=True)
class _Slot:
    job: Job
    owner: str


class JobRegistry:
    """The jobs of this process: the newest of each device. Safe to use from any thread.

    All jobs are ended when the interpreter exits in good order; where it does not, the children end by
    themselves.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[str, _Slot] = {}
        atexit.register(_close_if_alive, weakref.ref(self))

    def start(self, device: str, owner: str, start: Callable[[], Job]) -> Job | Busy:
        """Start a job on a device unless one runs there.

        Args:
            device: Key of the device (`cpu`, or the UUID of a card).
            owner: Who asks; shown to whoever finds the device busy.
            start: Starts the job; called at most once, and only while the device is free.
        """
        with self._lock:
            slot = self._slots.get(device)
            if slot is not None and not slot.job.is_over:
                return Busy(device=device, owner=slot.owner, started_at=slot.job.started_at)
            job = start()
            self._slots[device] = _Slot(job, owner)
            return job

    def job(self, device: str) -> Job | None:
        """The newest job of a device, running or ended, None if there was none."""
        with self._lock:
            slot = self._slots.get(device)
        return None if slot is None else slot.job

    def owner(self, device: str) -> str:
        """Who started the newest job of a device, empty if there was none."""
        with self._lock:
            slot = self._slots.get(device)
        return "" if slot is None else slot.owner

    def snapshot(self, device: str) -> Snapshot | None:
        """The newest job of a device as it is now."""
        job = self.job(device)
        return None if job is None else job.snapshot()

    def close(self) -> None:
        """Stop every job and wait for the children to be gone."""
        with self._lock:
            jobs = [slot.job for slot in self._slots.values()]
        for job in jobs:
            job.stop()
        for job in jobs:
            job.wait()


def _close_if_alive(reference: "weakref.ref[JobRegistry]") -> None:
    registry = reference()
    if registry is not None:
        with contextlib.suppress(RuntimeError):
            registry.close()
