"""One job per device."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from profiler.job_types import ExitReason
from profiler.registry import Busy, JobRegistry
from profiler.runner import Job
from tests.profiler.jobs import LIMIT_S, STUB, finish, is_running, start, until

ROOT = Path(__file__).resolve().parents[2]


def test_the_second_user_finds_the_device_busy() -> None:
    registry = JobRegistry()
    first = registry.start("cpu", "ada", lambda: start("hang"))
    assert isinstance(first, Job)
    second = registry.start("cpu", "bob", lambda: pytest.fail("must not start"))
    assert second == Busy(device="cpu", owner="ada", started_at=first.started_at)
    other = registry.start("GPU-1", "bob", lambda: start("good"))
    assert isinstance(other, Job)
    first.stop()
    finish(first)
    third = registry.start("cpu", "bob", lambda: start("good"))
    assert isinstance(third, Job)
    assert finish(third).reason is ExitReason.DONE
    assert registry.owner("cpu") == "bob"
    seen = registry.snapshot("cpu")
    assert seen is not None
    assert seen.reason is ExitReason.DONE
    assert registry.snapshot("nothing") is None
    assert registry.owner("nothing") == ""
    registry.close()


def test_many_at_once_start_one() -> None:
    registry = JobRegistry()
    gate = threading.Barrier(8)
    answers: list[Job | Busy] = []

    def ask(number: int) -> None:
        gate.wait()
        answers.append(registry.start("cpu", f"user {number}", lambda: start("hang")))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    jobs = [answer for answer in answers if isinstance(answer, Job)]
    assert len(jobs) == 1
    assert {answer.owner for answer in answers if isinstance(answer, Busy)} == {registry.owner("cpu")}
    registry.close()
    assert jobs[0].snapshot().reason is ExitReason.STOPPED


PROGRAM = """
import sys, time
from profiler.documents import Options
from profiler.registry import JobRegistry
from profiler.runner import Runner
registry = JobRegistry()
job = registry.start("cpu", "ada", lambda: Runner(sys.argv[1:]).start({"task": "full"}, Options()))
while job.snapshot().started is None:
    time.sleep(0.01)
print(job.snapshot().pid, flush=True)
"""


def test_an_interpreter_that_ends_takes_its_jobs_along() -> None:
    command = [sys.executable, "-c", PROGRAM, sys.executable, "-S", "-E", str(STUB), "hang"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=LIMIT_S)
    until(lambda: not is_running(int(done.stdout)))
