"""What the tests of the runner share: jobs with the stub child, and what is left when they are over."""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from profiler.documents import Options
from profiler.job_types import Snapshot
from profiler.runner import Job, Patience, Runner

STUB = Path(__file__).with_name("stub_child.py")
LIMIT_S = 60.0
PROC = Path("/proc")
SCENARIO = {"task": "full", "model": {"config": {"model_type": "gpt2"}}}
SHORT = Patience(terminate_after_s=0.3, kill_after_s=0.6)


def stub_runner(mode: str, patience: Patience = SHORT) -> Runner:
    return Runner((sys.executable, "-S", "-E", str(STUB), mode), patience)


def start(mode: str, options: Options | None = None, patience: Patience = SHORT) -> Job:
    return stub_runner(mode, patience).start(SCENARIO, options or Options())


def finish(job: Job) -> Snapshot:
    assert job.wait(LIMIT_S), "the job did not end"
    return job.snapshot()


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must come."""
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end_s, "it did not come"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie (Linux; elsewhere whether its id is taken)."""
    if PROC.is_dir():
        try:
            return "State:\tZ" not in (PROC / str(pid) / "status").read_text(encoding="utf-8")
        except (FileNotFoundError, ProcessLookupError):
            return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def profiler_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("profiler-")]


def open_descriptors() -> int | None:
    """Descriptors of this process, None where the system does not list them."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else None


def children() -> list[int]:
    """Processes this one has started and that are still there (Linux), zombies included."""
    folder = Path("/proc/self/task")
    if not folder.is_dir():
        return []
    texts = [(task / "children").read_text(encoding="utf-8") for task in folder.iterdir()]
    return [int(pid) for text in texts for pid in text.split()]
