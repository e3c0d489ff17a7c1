"""The commands that measure somebody else's program: `wrap -- COMMAND` from inside, `watch PID|GPU` from outside."""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from planner.plan_types import Plan
from planner.scenario import to_document
from profiler.hook.wrap import DeviceReader, wrap
from profiler.host_memory import PROC
from profiler.live import REPORT_NAME, announce
from profiler.nvml import DeviceInfo, Nvml, visible_devices
from profiler.nvml_words import why_no_card
from profiler.plan_request import predicted_bytes
from profiler.report import Report
from profiler.report_file import write_report
from profiler.report_parts import Program
from profiler.text_report import program_lines, remark_line
from profiler.watching import Watch

DEFAULT_REPORT: Final = Path("headroom-report.json")
STREAM_EVERY_S: Final = 5.0


def add_commands(commands: Any) -> None:
    """Add both to the command line."""
    wrapped = commands.add_parser("wrap", help="run a training command with a hook inside")
    wrapped.add_argument("--report", type=Path, default=DEFAULT_REPORT, metavar="OUT", help="report file")
    wrapped.add_argument("--scenario", metavar="FILE", help="the scenario that it trains, to compare with")
    wrapped.add_argument(
        "--follow", type=int, default=0, metavar="N", help="follow step N tensor by tensor: exact, slow"
    )
    wrapped.add_argument(
        "--snapshot", type=int, default=0, metavar="N", help="memory snapshot of step N (CUDA)"
    )
    wrapped.add_argument(
        "--keep-peaks", action="store_true", help="leave CUDA's peak counters to the program"
    )
    wrapped.add_argument("program", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    watched = commands.add_parser("watch", help="watch a process or a card through the driver")
    watched.add_argument("target", help="process id, or a card: gpu:0, its UUID, all")
    watched.add_argument("--report", type=Path, default=DEFAULT_REPORT, metavar="OUT", help="report file")
    watched.add_argument(
        "--seconds", type=float, metavar="S", help="how long; default: until it ends or Ctrl-C"
    )
    watched.add_argument("--every", type=float, default=1.0, metavar="S", help="seconds between looks")


def save(report: Report, path: Path) -> bool:
    """Write a report and say where it went if not there. Returns whether it was written at all."""
    written = write_report(report, path)
    if written.problem:
        where = f"; written to {written.path} instead" if written.path is not None else ""
        _say(f"{path}: {written.problem}{where}")
    return written.path is not None


def wrap_command(arguments: argparse.Namespace, plan: Plan | None) -> int:
    """Run the command. Returns its own exit code; 2 for wrong options, 1 where only the report failed."""
    command = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not command:
        _say("COMMAND: nothing given; python -m profiler wrap -- python train.py")
        return 2
    for name in ("follow", "snapshot"):
        if getattr(arguments, name) < 0:
            _say(f"--{name}: {getattr(arguments, name)} given; 0 or more")
            return 2
    ended = wrap(
        command,
        follow_step=arguments.follow,
        snapshot_step=arguments.snapshot,
        keep_peaks=arguments.keep_peaks,
        read_device=_device_reader(Nvml()),
    )
    for remark in ended.remarks:
        _say(remark_line(remark))
    if ended.report is None:
        return ended.exit_code or 1
    report = with_question(ended.report, plan)
    for line in program_lines(report):
        _say(line)
    saved = save(report, arguments.report)
    return ended.exit_code or int(not saved)


def with_question(report: Report, plan: Plan | None) -> Report:
    """The report with the scenario that the program was said to train, so that both can be compared."""
    if plan is None:
        return report
    return report.model_copy(
        update={
            "scenario": to_document(plan.resolved),
            "config": {key: json.loads(text) for key, text in plan.model.config},
            "predicted_bytes": predicted_bytes(plan, report.environment.device),
        }
    )


def _device_reader(nvml: Nvml) -> DeviceReader | None:
    """Reads the first card that the command would see; None where there is none."""
    found = nvml.devices()
    visible = visible_devices(found.value).devices if found.value is not None else ()
    uuid = visible[0].uuid.value if visible else None
    if uuid is None:
        return None
    known = uuid

    def read(pid: int) -> tuple[int | None, int | None]:
        memory = nvml.memory(known).value
        return memory.used_bytes if memory else None, nvml.process_bytes(known, pid).value

    return read


def watch(arguments: argparse.Namespace) -> int:
    """Watch until the end. Returns 0, 1 where nothing can be read or written, 2 for wrong options."""
    if arguments.every <= 0 or (arguments.seconds is not None and arguments.seconds <= 0):
        _say("--every, --seconds: more than 0 asked for")
        return 2
    nvml = Nvml()
    try:
        cards, pid = target_of(arguments.target, nvml)
    except ValueError as error:
        _say(str(error))
        return 2
    if not cards and pid is None:
        reading = nvml.devices()
        _say(f"{arguments.target}: {why_no_card(reading.reason, reading.detail)}")
        return 1
    seen = Watch(nvml, cards, pid)
    program = Program(way="watch", name=str(arguments.target)[:300])
    report = _watch(seen, program, pid, arguments.every, arguments.seconds)
    for line in program_lines(report):
        _say(line)
    return 0 if save(report, arguments.report) else 1


def _watch(seen: Watch, program: Program, pid: int | None, every_s: float, seconds: float | None) -> Report:
    began_s = streamed_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headroom-watch-") as name, announce(Path(name), program) as told:
        try:
            while True:
                now_s = time.monotonic()
                seen.look(now_s - began_s)
                told.beat()
                if now_s - streamed_s >= STREAM_EVERY_S:
                    streamed_s = now_s
                    write_report(seen.report(program), Path(name, REPORT_NAME))
                over = seconds is not None and now_s - began_s >= seconds
                if over or seen.all_lost or (pid is not None and not is_there(pid)):
                    break
                left_s = every_s if seconds is None else min(every_s, seconds - (now_s - began_s))
                time.sleep(max(0.0, left_s))
        except KeyboardInterrupt:
            pass
    return seen.report(program)


def target_of(text: str, nvml: Nvml) -> tuple[tuple[DeviceInfo, ...], int | None]:
    """The cards to watch and the process, None for none.

    A process is watched on every card that can be read, and by its host memory alone where there is no card.

    Raises:
        ValueError: It names no card of this machine and no running process.
    """
    if text.startswith("gpu:") and not text.removeprefix("gpu:").isdecimal():
        raise ValueError(f"PID|GPU: {text!r} given; gpu: and a number from 0 up, a UUID, all or a process id")
    found = nvml.devices().value or ()
    usable = tuple(card for card in found if not card.mig_enabled and card.uuid.value is not None)
    if text == "all":
        return usable, None
    if text.startswith(("gpu:", "GPU-", "MIG-")):
        number = text.removeprefix("gpu:")
        chosen = tuple(
            card for card in usable if str(card.index) == number or (card.uuid.value or "").startswith(text)
        )
        if usable and not chosen:
            names = ", ".join(f"gpu:{card.index}" for card in usable)
            raise ValueError(f"PID|GPU: {text!r} given; {names} or a process id")
        return chosen, None
    if not text.isdecimal() or not is_there(int(text)):
        raise ValueError(f"PID|GPU: {text!r} given; a running process, gpu:0, a UUID or all")
    return usable, int(text)


def is_there(pid: int) -> bool:
    """Whether a process is running; one that has ended and waits for its parent is not."""
    status = PROC / str(pid) / "status"
    if PROC.is_dir():
        try:
            return "State:\tZ" not in status.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
    if sys.platform == "win32":  # there, signal 0 would end the process
        return True
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201  # a command's words
