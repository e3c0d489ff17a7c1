"""The runner with a stub child: every way a job ends, and that nothing is left."""

import gc
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from profiler.documents import Options, Remark
from profiler.job_types import ExitReason, JobState
from profiler.runner import Patience, Runner, signal_name
from tests.profiler.jobs import (
    LIMIT_S,
    SCENARIO,
    SHORT,
    STUB,
    children,
    finish,
    is_running,
    open_descriptors,
    profiler_threads,
    start,
    stub_runner,
    until,
)

POSIX = sys.platform != "win32"
LINUX = sys.platform == "linux"
ROOT = Path(__file__).resolve().parents[2]


def test_a_job_runs_to_its_end() -> None:
    seen = finish(start("good", Options(steps=3)))
    assert (seen.state, seen.reason, seen.exit_code) == (JobState.ENDED, ExitReason.DONE, 0)
    assert seen.progress is not None
    assert seen.progress.code == "measuring"
    assert [sample.resident_bytes for sample in seen.samples] == [1000]
    assert seen.samples[0].device_used_bytes is None
    assert [peak.peak_allocated_bytes for peak in seen.peaks] == [4096]
    assert seen.report is not None
    assert seen.report.scenario == SCENARIO
    assert seen.report.config == {"model_type": "gpt2"}
    assert seen.report.options.steps == 3
    assert seen.silent_s is None


def test_a_running_job_is_seen_and_stopped() -> None:
    job = start("hang")
    until(lambda: job.snapshot().progress is not None)
    seen = job.snapshot()
    assert seen.state is JobState.RUNNING
    assert seen.reason is None
    assert seen.silent_s is not None
    assert seen.started is not None
    assert seen.started.pid == seen.pid
    job.stop()
    seen = finish(job)
    assert (seen.state, seen.reason) == (JobState.ENDED, ExitReason.STOPPED)
    assert seen.pid is not None
    assert not is_running(seen.pid)


def test_a_child_that_ignores_its_input_is_terminated() -> None:
    job = start("stubborn")
    until(lambda: job.snapshot().started is not None)
    job.stop()
    assert job.snapshot().state is JobState.STOPPING
    seen = finish(job)
    assert seen.reason is ExitReason.STOPPED
    if POSIX:
        assert seen.signal == "SIGTERM"


@pytest.mark.skipif(not POSIX, reason="signals are POSIX")
def test_a_child_that_ignores_the_signal_is_killed() -> None:
    code = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('ready', flush=True); time.sleep(600)"
    )
    job = Runner((sys.executable, "-c", code), SHORT).start(SCENARIO, Options())
    until(lambda: "ready" in job.snapshot().log)
    job.stop()
    seen = finish(job)
    assert (seen.reason, seen.signal) == (ExitReason.STOPPED, "SIGKILL")


def test_stop_while_it_starts() -> None:
    job = start("deaf")
    job.stop()
    job.stop()
    assert finish(job).reason is ExitReason.STOPPED
    job.stop()
    assert job.snapshot().state is JobState.ENDED


def test_a_request_larger_than_any_pipe_does_not_block() -> None:
    large = {**SCENARIO, "name": "n" * 3_000_000}
    job = stub_runner("deaf").start(large, Options())
    job.stop()
    assert finish(job).reason is ExitReason.STOPPED
    seen = finish(stub_runner("good").start(large, Options()))
    assert seen.report is not None
    assert seen.report.scenario == large


def test_a_hang_past_the_timeout() -> None:
    seen = finish(start("hang", Options(timeout_s=0.5)))
    assert seen.reason is ExitReason.TIMEOUT
    assert seen.pid is not None
    assert not is_running(seen.pid)


def test_a_job_nobody_looks_at_is_stopped() -> None:
    patience = Patience(terminate_after_s=0.3, kill_after_s=0.6, abandon_after_s=0.3)
    assert finish(start("hang", patience=patience)).reason is ExitReason.ABANDONED


def test_looking_keeps_a_job_alive() -> None:
    job = start("hang", patience=Patience(terminate_after_s=0.3, kill_after_s=0.6, abandon_after_s=2.0))
    until(lambda: job.snapshot().elapsed_s > 3.0)
    assert not job.is_over
    job.stop()
    assert finish(job).reason is ExitReason.STOPPED


def test_a_crash_shows_its_last_words() -> None:
    seen = finish(start("crash"))
    assert (seen.reason, seen.exit_code, seen.signal) == (ExitReason.CRASHED, 7, "")
    assert seen.stderr[-1] == "ValueError: broken"


@pytest.mark.skipif(not POSIX, reason="signals are POSIX")
def test_a_killed_child_is_a_crash_with_its_signal() -> None:
    seen = finish(start("signal"))
    assert (seen.reason, seen.exit_code, seen.signal) == (ExitReason.CRASHED, -9, "SIGKILL")


def test_garbage_is_kept_apart_and_bounded() -> None:
    seen = finish(start("garbage"))
    assert seen.reason is ExitReason.DONE
    assert seen.log[0] == "Loading weights: 100%"
    assert '{"event": "started"}' in seen.log
    assert max(map(len, seen.log)) <= 500
    assert len(seen.log) <= 200


def test_a_flood_on_stderr_is_bounded() -> None:
    seen = finish(start("noise"))
    assert seen.reason is ExitReason.DONE
    assert len(seen.stderr) == 200
    assert max(map(len, seen.stderr)) == 500


def test_refused_settings_name_their_field() -> None:
    seen = finish(start("refused"))
    assert seen.reason is ExitReason.REFUSED
    assert seen.remarks == (Remark(code="tensor_parallel", field="parallel.tensor", params={"given": 2}),)


def test_the_childs_own_limit() -> None:
    seen = finish(start("limit"))
    assert (seen.reason, seen.detail) == (ExitReason.OUT_OF_MEMORY, "over the limit")


@pytest.mark.skipif(not LINUX, reason="the parent reads another process's memory on Linux and Windows only")
def test_the_parent_ends_a_child_over_its_limit() -> None:
    seen = finish(start("greedy", Options(memory_limit_bytes=100_000_000)))
    assert seen.reason is ExitReason.OUT_OF_MEMORY


def test_a_report_that_cannot_be_read() -> None:
    seen = finish(start("bad_report"))
    assert seen.reason is ExitReason.CRASHED
    assert seen.report is None
    assert "wrong_kind" in seen.detail


def test_an_end_without_a_word_is_a_crash() -> None:
    seen = finish(start("silent_exit"))
    assert (seen.reason, seen.exit_code) == (ExitReason.CRASHED, 0)


def test_a_child_that_cannot_be_started() -> None:
    job = Runner(("/no/such/program",)).start(SCENARIO, Options())
    assert job.is_over
    job.stop()
    seen = finish(job)
    assert (seen.reason, seen.pid, seen.exit_code) == (ExitReason.COULD_NOT_START, None, None)
    assert "FileNotFoundError" in seen.detail


@pytest.mark.skipif(not LINUX, reason="process groups are swept on Linux")
def test_what_the_child_started_goes_with_it() -> None:
    seen = finish(start("grandchild"))
    line = next(line for line in seen.log if line.startswith("grandchild"))
    until(lambda: not is_running(int(line.split()[1])))
    assert seen.exit_code == 3


def _cycle(number: int) -> None:
    job = start(("hang", "good", "crash", "deaf")[number % 4])
    if number % 4 != 3:
        until(lambda: job.is_over or job.snapshot().started is not None)
    job.stop()
    finish(job)


def _leaks_nothing(cycles: int) -> None:
    _cycle(0)
    gc.collect()
    descriptors, before = open_descriptors(), set(children())
    for number in range(cycles):
        _cycle(number)
    until(lambda: profiler_threads() == [])
    gc.collect()
    assert set(children()) <= before
    assert open_descriptors() == descriptors


def test_twenty_cycles_leak_nothing() -> None:
    _leaks_nothing(20)


@pytest.mark.long
def test_two_hundred_cycles_leak_nothing() -> None:
    _leaks_nothing(200)


PARENT = """
import sys, time
from profiler.documents import Options
from profiler.runner import Runner
job = Runner(sys.argv[1:]).start({"task": "full", "model": {"config": {}}}, Options())
while job.snapshot().started is None:
    time.sleep(0.01)
print(job.snapshot().pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_no_child_outlives_the_app(how: str) -> None:
    command = [sys.executable, "-c", PARENT, sys.executable, "-S", "-E", str(STUB), "hang"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        getattr(parent, how)()
        parent.wait(LIMIT_S)
    until(lambda: not is_running(pid))


def test_signal_names() -> None:
    assert signal_name(None) == signal_name(0) == signal_name(3) == ""
    if POSIX:
        assert signal_name(-signal.SIGSEGV) == "SIGSEGV"
        assert signal_name(-99) == "99"
