"""Starts the child that measures, follows it and ends it. Nothing here loads PyTorch.

Daemon threads serve a job: two read its pipes, one watches the clock, its memory and its end. The child ends
by itself when its standard input closes, which happens whenever this process goes away, however it goes.
"""

import contextlib
import datetime as dt
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from profiler.documents import Options, Remark
from profiler.events import (
    MAX_LINE_BYTES,
    AnyEvent,
    Failed,
    PhasePeak,
    Progress,
    Refused,
    Request,
    Result,
    Sample,
    Started,
    encode_request,
    parse_line,
)
from profiler.host_memory import resident_bytes
from profiler.job_types import ExitReason, JobState, Snapshot
from profiler.pump import MAX_LOG_CHARACTERS, BoundedLog, start_pump
from profiler.report import Report, ReportError, report_from

ROOT: Final = Path(__file__).resolve().parent.parent
WORKER: Final = (sys.executable, "-m", "profiler.worker")
TERMINATE_AFTER_S: Final = 2.0
KILL_AFTER_S: Final = 5.0
POLL_S: Final = 0.2
MEMORY_GRACE: Final = 1.1
"""The child ends itself at its limit and says so; the parent steps in where it is this far above."""
MAX_KEPT_SAMPLES: Final = 1_000
MAX_KEPT_PEAKS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a child is waited for when it is to end.

    Attributes:
        terminate_after_s: After its standard input was closed.
        kill_after_s: After its standard input was closed; a killed child is waited for without limit.
        abandon_after_s: Seconds without anyone reading the job after which it is stopped, None for never.
    """

    terminate_after_s: float = TERMINATE_AFTER_S
    kill_after_s: float = KILL_AFTER_S
    abandon_after_s: float | None = None


@dataclass(slots=True)
class _Heard:
    """What the pump threads write and snapshots read, under the job's lock."""

    started: Started | None = None
    progress: Progress | None = None
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=MAX_KEPT_SAMPLES))
    peaks: deque[PhasePeak] = field(default_factory=lambda: deque(maxlen=MAX_KEPT_PEAKS))
    report: Report | None = None
    report_problem: str = ""
    remarks: tuple[Remark, ...] | None = None
    failed: Failed | None = None
    last_at_s: float | None = None


class Job:
    """A running or ended measurement.

    All methods may be called from any thread and return at once, `wait` aside.
    """

    def __init__(
        self, request: Request, options: Options, command: Sequence[str], patience: Patience
    ) -> None:
        self._options = options
        self._patience = patience
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._over = threading.Event()
        self._heard = _Heard()
        self._log = BoundedLog()
        self._stderr = BoundedLog()
        self._asked: ExitReason | None = None
        self._reason: ExitReason | None = None
        self._detail = ""
        self._exit_code: int | None = None
        self._started_at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        self._start_s = self._looked_s = time.monotonic()
        self._end_s: float | None = None
        self._process = self._spawn(command)
        if self._process is None:
            self._end_s = time.monotonic()
            self._over.set()
            return
        line = encode_request(request)
        self._threads = (
            self._pump("stdout", self._process.stdout, self._on_line),
            self._pump("stderr", self._process.stderr, self._stderr.add),
            _start_thread("stdin", self._send, self._process, line),
        )
        _start_thread("supervisor", self._supervise, self._process)

    @property
    def started_at(self) -> str:
        """Start, UTC, ISO 8601."""
        return self._started_at

    @property
    def is_over(self) -> bool:
        """Whether the child is gone and its threads have ended."""
        return self._over.is_set()

    def stop(self) -> None:
        """Ask the job to end: its input is closed, then it is terminated, and killed in the end."""
        self._ask(ExitReason.STOPPED)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end. Returns whether it has come."""
        return self._over.wait(timeout_s)

    def snapshot(self) -> Snapshot:
        """The job as it is now; also tells the job that somebody is looking."""
        now = time.monotonic()
        with self._lock:
            self._looked_s = now
            heard, over = self._heard, self._over.is_set()
            silent = None if over or heard.last_at_s is None else now - heard.last_at_s
            return Snapshot(
                state=self._state(over=over),
                reason=self._reason if over else None,
                detail=self._detail,
                remarks=heard.remarks or (),
                started_at=self._started_at,
                elapsed_s=(self._end_s if self._end_s is not None else now) - self._start_s,
                silent_s=silent,
                pid=None if self._process is None else self._process.pid,
                started=heard.started,
                progress=heard.progress,
                samples=tuple(heard.samples),
                peaks=tuple(heard.peaks),
                report=heard.report,
                report_problem=heard.report_problem,
                log=self._log.lines(),
                stderr=self._stderr.lines(),
                exit_code=self._exit_code,
                signal=signal_name(self._exit_code),
            )

    def _state(self, *, over: bool) -> JobState:
        if over:
            return JobState.ENDED
        if self._asked is not None:
            return JobState.STOPPING
        return JobState.STARTING if self._heard.started is None else JobState.RUNNING

    def _ask(self, reason: ExitReason) -> None:
        with self._lock:
            if self._asked is None and not self._over.is_set():
                self._asked = reason
        self._wake.set()

    def _spawn(self, command: Sequence[str]) -> "subprocess.Popen[bytes] | None":
        environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1", "PYTHONPATH": _python_path()}
        try:
            return subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=ROOT,
                env=environment,
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except (OSError, ValueError) as error:
            self._reason, self._detail = ExitReason.COULD_NOT_START, f"{type(error).__name__}: {error}"
            return None

    def _pump(self, name: str, pipe: IO[bytes] | None, on_line: Any) -> threading.Thread:
        if pipe is None:
            raise RuntimeError(f"the child has no {name} pipe")
        limit = MAX_LINE_BYTES if name == "stdout" else 4 * MAX_LOG_CHARACTERS
        return start_pump(f"profiler-{name}", pipe, on_line, self._wake.set, limit)

    def _send(self, process: "subprocess.Popen[bytes]", line: bytes) -> None:
        pipe = process.stdin
        view = memoryview(line)
        with contextlib.suppress(OSError, ValueError):
            while view and pipe is not None:
                written = pipe.write(view)
                view = view[written or 0 :]

    def _on_line(self, line: bytes) -> None:
        event = parse_line(line)
        if event is None:
            self._log.add(line)
            return
        report, problem = _read_report(event)
        with self._lock:
            heard = self._heard
            heard.last_at_s = time.monotonic()
            if isinstance(event, Started):
                heard.started = event
            elif isinstance(event, Progress):
                heard.progress = event
            elif isinstance(event, Sample):
                heard.samples.append(event)
            elif isinstance(event, PhasePeak):
                heard.peaks.append(event)
            elif isinstance(event, Refused):
                heard.remarks = event.remarks
            elif isinstance(event, Failed):
                heard.failed = event
            elif isinstance(event, Result):
                heard.report, heard.report_problem = report, problem

    def _supervise(self, process: "subprocess.Popen[bytes]") -> None:
        try:
            while not _has_ended(process) and self._asked is None:
                self._wake.wait(POLL_S)
                self._wake.clear()
                self._check(process)
            if not _has_ended(process):
                self._end(process)
        finally:
            self._finish(process)

    def _check(self, process: "subprocess.Popen[bytes]") -> None:
        """Look at the clock, the memory and whether anybody still looks."""
        now = time.monotonic()
        limit, abandon_after_s = self._options.memory_limit_bytes, self._patience.abandon_after_s
        if now - self._start_s > self._options.timeout_s:
            self._ask(ExitReason.TIMEOUT)
        elif abandon_after_s is not None and now - self._looked_s > abandon_after_s:
            self._ask(ExitReason.ABANDONED)
        elif limit is not None and (resident_bytes(process.pid) or 0) > limit * MEMORY_GRACE:
            self._ask(ExitReason.OUT_OF_MEMORY)

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        """Close the child's input, then ask, then force."""
        asked_s = time.monotonic()
        _close(process.stdin)
        if self._wait_until(process, asked_s + self._patience.terminate_after_s):
            return
        with contextlib.suppress(OSError):
            process.terminate()
        if self._wait_until(process, asked_s + self._patience.kill_after_s):
            return
        with contextlib.suppress(OSError):
            process.kill()

    def _wait_until(self, process: "subprocess.Popen[bytes]", until_s: float) -> bool:
        while not _has_ended(process):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return False
            self._wake.wait(min(left_s, POLL_S / 4))
            self._wake.clear()
        return True

    def _finish(self, process: "subprocess.Popen[bytes]") -> None:
        """Reap the child, sweep up what it may have started, close what is open, say how it ended."""
        _sweep_group(process)
        code = process.wait()
        _close(process.stdin)
        for thread in self._threads:
            thread.join(KILL_AFTER_S)
        with self._lock:
            self._exit_code = code
            self._end_s = time.monotonic()
            self._reason, self._detail = self._why(code)
            self._over.set()

    def _why(self, code: int) -> tuple[ExitReason, str]:
        heard = self._heard
        if heard.report is not None and code == 0:
            return ExitReason.DONE, ""
        if self._asked is not None:
            return self._asked, ""
        if heard.remarks is not None:
            return ExitReason.REFUSED, ""
        if heard.failed is not None:
            by_limit = heard.failed.reason == "memory_limit"
            reason = ExitReason.OUT_OF_MEMORY if by_limit else ExitReason.CRASHED
            return reason, heard.failed.detail or heard.failed.reason
        if heard.report_problem:
            return ExitReason.CRASHED, heard.report_problem
        return ExitReason.CRASHED, ""


class Runner:
    """Starts jobs.

    Args:
        command: What to start, as an argument list; the worker by default.
        patience: How long a child is waited for when it is to end.
    """

    def __init__(self, command: Sequence[str] = WORKER, patience: Patience | None = None) -> None:
        self._command = tuple(command)
        self._patience = patience or Patience()

    def start(
        self,
        scenario_document: Mapping[str, Any],
        options: Options,
        *,
        config: Mapping[str, Any] | None = None,
        predicted_bytes: int | None = None,
    ) -> Job:
        """Start a measurement. Never raises for a child that cannot be started: the job says so.

        Args:
            scenario_document: The scenario with every default filled in, as plain values.
            options: How to measure.
            config: Keys of the model's config.json; taken from the scenario where it has them.
            predicted_bytes: Peak that the plan expects, for the report.
        """
        document = dict(scenario_document)
        known = config if config is not None else (document.get("model") or {}).get("config") or {}
        request = Request(
            scenario=document,
            config=dict(known),
            options=options.model_dump(mode="json"),
            predicted_bytes=predicted_bytes,
        )
        return Job(request, options, self._command, self._patience)


def signal_name(exit_code: int | None) -> str:
    """Name of the signal behind a negative exit code, empty for none or on systems without them."""
    if exit_code is None or exit_code >= 0:
        return ""
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return str(-exit_code)


def _read_report(event: AnyEvent) -> tuple[Report | None, str]:
    if not isinstance(event, Result):
        return None, ""
    try:
        return report_from(event.report), ""
    except ReportError as error:
        return None, str(error)


def _start_thread(name: str, target: Callable[..., None], *args: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, name=f"profiler-{name}", daemon=True)
    thread.start()
    return thread


def _python_path() -> str:
    found = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(ROOT), found] if found else [str(ROOT)])


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError):
            pipe.close()


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Whether the child has ended; where the system allows it is not reaped yet, so its id stays taken."""
    if sys.platform == "linux" and process.returncode is None:
        with contextlib.suppress(ChildProcessError):
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


def _sweep_group(process: "subprocess.Popen[bytes]") -> None:
    """End what the child may have started, while its id cannot belong to anything else."""
    if sys.platform == "linux" and process.returncode is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
