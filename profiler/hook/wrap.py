"""Runs a command with the hook inside whichever Python it starts, and makes the report when it is over. No PyTorch."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from profiler.documents import Remark
from profiler.events import Sample
from profiler.hook.collect import collect
from profiler.hook.lines import VARIABLE
from profiler.hook.settings import HookSettings
from profiler.host_memory import resident_bytes
from profiler.live import Announced, announce
from profiler.report import MAX_SAMPLES, DeviceReadings, Report
from profiler.report_parts import Program

SITE: Final = Path(__file__).resolve().parent / "site"
LOOK_S: Final = 0.5
COULD_NOT_START: Final = 127
DeviceReader = Callable[[int], tuple[int | None, int | None]]
"""Bytes in use on the device and by the process with this id; None = not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """How a wrapped command ended.

    Attributes:
        report: What was measured, None if no Python with PyTorch trained.
        exit_code: The command's own, 128 + number for a signal, 127 where it could not be started.
        remarks: Why there is no report.
    """

    report: Report | None
    exit_code: int
    remarks: tuple[Remark, ...] = ()


@dataclass(slots=True)
class _Seen:
    """Readings beside the command, thinned evenly."""

    samples: list[Sample] = field(default_factory=list)
    resident: int | None = None
    used: int | None = None
    process: int | None = None
    keep_every: int = 1
    number: int = 0

    def add(self, sample: Sample) -> None:
        self.resident = _most(self.resident, sample.resident_bytes)
        self.used = _most(self.used, sample.device_used_bytes)
        self.process = _most(self.process, sample.process_bytes)
        self.number += 1
        if self.number % self.keep_every:
            return
        self.samples.append(sample)
        if len(self.samples) >= MAX_SAMPLES:
            del self.samples[::2]
            self.keep_every *= 2

    def readings(self) -> DeviceReadings:
        return DeviceReadings(
            peak_bytes=self.used, process_peak_bytes=self.process, resident_peak_bytes=self.resident
        )


def child_environment(settings: HookSettings, environment: dict[str, str] | None = None) -> dict[str, str]:
    """The environment of a watched command: our `sitecustomize` stands first on its path."""
    given = dict(os.environ if environment is None else environment)
    before = given.get("PYTHONPATH")
    given["PYTHONPATH"] = os.pathsep.join([str(SITE), before] if before else [str(SITE)])
    given[VARIABLE] = settings.to_text()
    return given


def wrap(
    command: Sequence[str],
    *,
    follow_step: int = 0,
    snapshot_step: int = 0,
    keep_peaks: bool = False,
    read_device: DeviceReader | None = None,
) -> Wrapped:
    """Run a command to its end; its input and output stay its own.

    Args:
        command: Program and arguments.
        follow_step: Step whose tensors are followed one by one, 0 for none.
        snapshot_step: Step of which a memory snapshot is written, 0 for none.
        keep_peaks: Leave CUDA's peak counters alone.
        read_device: Reads the card beside it.
    """
    with tempfile.TemporaryDirectory(prefix="headroom-wrap-") as name:
        folder = Path(name)
        settings = HookSettings(
            folder=str(folder), follow_step=follow_step, snapshot_step=snapshot_step, keep_peaks=keep_peaks
        )
        program = Program(way="wrap", name=_script(command))
        try:
            process = subprocess.Popen(list(command), env=child_environment(settings))
        except (OSError, ValueError) as error:
            detail = f"{type(error).__name__}: {error}"
            remark = Remark(code="could_not_start", params={"detail": detail[:300]})
            return Wrapped(report=None, exit_code=COULD_NOT_START, remarks=(remark,))
        with announce(folder, program) as told:
            seen, code = _follow(process, told, read_device)
        ended = program.model_copy(
            update={"exit_code": code, "signal": _signal(code), "snapshot": keep_snapshot(folder, Path.cwd())}
        )
        report = collect(folder, ended, samples=tuple(seen.samples), readings=seen.readings())
    remarks = (
        () if report is not None else (Remark(code="nothing_trained", params={"program": program.name}),)
    )
    return Wrapped(report=report, exit_code=code if code >= 0 else 128 - code, remarks=remarks)


def _follow(
    process: "subprocess.Popen[bytes]", told: Announced, read_device: DeviceReader | None
) -> tuple[_Seen, int]:
    """Wait for the end, looking at memory meanwhile. An interrupt is the command's to answer."""
    seen, began_s = _Seen(), time.monotonic()
    with _passed_on(process):
        while True:
            with suppress(subprocess.TimeoutExpired):
                return seen, process.wait(LOOK_S)
            used, own = read_device(process.pid) if read_device is not None else (None, None)
            seen.add(
                Sample(
                    at_s=time.monotonic() - began_s,
                    device_used_bytes=used,
                    process_bytes=own,
                    resident_bytes=resident_bytes(process.pid),
                )
            )
            told.beat()


@contextmanager
def _passed_on(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Signals that would end this process are the command's; its report is still to be written here.

    A terminal sends Ctrl-C to both, so that one is ignored here; a request to end is handed on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hand_on(number: int, _: Any) -> None:
        with suppress(OSError):
            process.send_signal(number)

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN if sys.stdin.isatty() else hand_on),
        signal.SIGTERM: signal.signal(signal.SIGTERM, hand_on),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def keep_snapshot(folder: Path, kept: Path) -> str:
    """Move the memory snapshot out of a folder that is about to go. Returns where it is, empty for none."""
    for path in sorted(folder.glob("*.pickle")):
        with suppress(OSError):
            return str(shutil.move(path, kept / f"headroom-{os.getpid()}-{path.name}"))[-300:]
    return ""


def _script(command: Sequence[str]) -> str:
    """File name of the script, else of the program; arguments may be private."""
    names = [Path(word).name for word in command]
    return next((name for name in names if name.endswith(".py")), names[0] if names else "")[:300]


def _signal(code: int) -> str:
    with suppress(ValueError):
        return signal.Signals(-code).name if code < 0 else ""
    return ""


def _most(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else max(one, other)
