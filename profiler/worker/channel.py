"""The child's side of the pipes: the request in, events out, and that it never outlives its parent."""

import contextlib
import faulthandler
import os
import threading
import time
from collections.abc import Callable
from typing import Final

from profiler.documents import MeasuredPhase
from profiler.events import MAX_LINE_BYTES, Event, Failed, Heartbeat, Sample, encode
from profiler.host_memory import own_resident_bytes
from profiler.report import MAX_SAMPLES

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
BEAT_S: Final = 0.1
HEARTBEAT_S: Final = 1.0
GRACE_S: Final = 60.0
"""The parent ends a job at its timeout; this much later the child ends itself, even if it hangs."""

EXIT_MEMORY_LIMIT: Final = 3
DeviceReading = Callable[[], tuple[int | None, int | None]]
"""Bytes in use on the device, and by this process; None = not known."""


class Channel:
    """Writes events to what was standard output. What libraries print goes to standard error instead."""

    def __init__(self) -> None:
        self._out = os.dup(STDOUT)
        os.dup2(STDERR, STDOUT)
        self._lock = threading.Lock()
        self.start_s = time.monotonic()

    def send(self, event: Event) -> None:
        """Write one line. A parent that no longer reads is a parent that is gone: the process ends."""
        data = encode(event).encode() + b"\n"
        with self._lock:
            try:
                while data:
                    data = data[os.write(self._out, data) :]
            except OSError:
                os._exit(0)

    def elapsed_s(self) -> float:
        """Seconds since the child started."""
        return time.monotonic() - self.start_s


def read_first_line() -> bytes:
    """The request: everything up to the first line end on standard input, or what there is."""
    held = bytearray()
    while b"\n" not in held and len(held) < MAX_LINE_BYTES:
        chunk = os.read(STDIN, 65_536)
        if not chunk:
            break
        held += chunk
    return bytes(held).partition(b"\n")[0]


def end_with_parent(timeout_s: float) -> None:
    """Start what ends this process when its input closes, and an alarm for when even that is stuck.

    The input is read below `sys.stdin`: a thread inside that object aborts the interpreter as it ends.
    """
    faulthandler.dump_traceback_later(timeout_s + GRACE_S, exit=True)

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(STDIN, 65_536):
                pass
        os._exit(0)

    threading.Thread(target=watch, name="stdin", daemon=True).start()


class Beat:
    """A thread that says the child is alive, samples memory, and ends the child at its memory limit.

    Args:
        channel: Where to say it.
        limit_bytes: Resident bytes at which the process ends, None for no limit.
    """

    def __init__(self, channel: Channel, limit_bytes: int | None) -> None:
        self._channel = channel
        self._limit_bytes = limit_bytes
        self._samples: list[Sample] = []
        self._keep_every = 1
        self._seen = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beat", daemon=True)
        self.phase: MeasuredPhase | None = None
        self.read_device: DeviceReading = lambda: (None, None)
        self.peak_resident_bytes: int | None = None
        self.peak_used_bytes: int | None = None
        self.peak_process_bytes: int | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stop.set()
        self._thread.join()

    def samples(self) -> tuple[Sample, ...]:
        """The samples so far, thinned evenly to what a report holds."""
        with self._lock:
            return tuple(self._samples)

    def _run(self) -> None:
        spoke_s = 0.0
        while not self._stop.wait(BEAT_S):
            self.sample()
            now_s = self._channel.elapsed_s()
            if now_s - spoke_s >= HEARTBEAT_S:
                spoke_s = now_s
                self._channel.send(Heartbeat(at_s=now_s))

    def sample(self) -> None:
        """Read memory once, keep the reading, and end the process if it is over its limit."""
        resident = own_resident_bytes()
        used, process = self.read_device()
        self.peak_resident_bytes = _most(self.peak_resident_bytes, resident)
        self.peak_used_bytes = _most(self.peak_used_bytes, used)
        self.peak_process_bytes = _most(self.peak_process_bytes, process)
        if self._limit_bytes is not None and (resident or 0) > self._limit_bytes:
            detail = f"resident {resident} > {self._limit_bytes}"
            self._channel.send(Failed(reason="memory_limit", detail=detail))
            os._exit(EXIT_MEMORY_LIMIT)
        reading = Sample(
            at_s=self._channel.elapsed_s(),
            device_used_bytes=used,
            process_bytes=process,
            resident_bytes=resident,
            phase=self.phase,
        )
        self._keep(reading)

    def _keep(self, reading: Sample) -> None:
        with self._lock:
            self._seen += 1
            if self._seen % self._keep_every:
                return
            self._samples.append(reading)
            if len(self._samples) >= MAX_SAMPLES:
                del self._samples[::2]
                self._keep_every *= 2
        self._channel.send(reading)


def _most(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else max(one, other)
