"""The real child: from a request to a report, and every way it ends early.

Each test loads PyTorch anew, so most run with the long ones.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planner.scenario import Scenario
from profiler.documents import DeviceKind, Options
from profiler.events import MAX_LINE_BYTES
from profiler.job_types import ExitReason, Snapshot
from profiler.report import Report, dump_report, load_report
from profiler.runner import Job, Runner
from tests.profiler.jobs import (
    children,
    finish,
    is_running,
    open_descriptors,
    profiler_threads,
    until,
)
from tests.profiler.scenarios import GPT2, LLAMA, scenario

ROOT = Path(__file__).resolve().parents[3]
ONE_THREAD = Options(threads=1, steps=1)


def start(document: dict[str, Any], options: Options = ONE_THREAD) -> Job:
    return Runner().start(document, options)


def report_of(seen: Snapshot) -> Report:
    assert seen.reason is ExitReason.DONE, (seen.reason, seen.detail, seen.remarks, seen.stderr)
    assert seen.report is not None
    return seen.report


def check_report(device: DeviceKind) -> Report:
    """One real step of a Llama-style model on a device, and what every report has to hold."""
    document = scenario(LLAMA)
    seen = finish(start(document, Options(device=device, threads=1, steps=2)))
    report = report_of(seen)
    assert (report.outcome, report.environment.device) == ("completed", device)
    assert [figures.phase for figures in report.phases] == [
        *("rest", "forward", "loss", "backward", "optimizer_step")
    ]
    params = report.params_total
    assert params is not None
    assert report.params_trainable == params
    for figures in report.phases:
        allocated = sum(group.bytes for group in figures.groups if group.layer == "allocated")
        assert allocated == pytest.approx(figures.peak_allocated_bytes, rel=0.01)
        assert figures.peak_allocated_bytes >= 12 * params
    assert report.resting_allocated_bytes == report.phases[0].peak_allocated_bytes
    assert {(time.step, time.phase) for time in report.steps} >= {(2, "forward"), (3, "optimizer_step")}
    assert report.samples
    assert [peak.phase for peak in seen.peaks][:5] == [figures.phase for figures in report.phases]
    assert load_report(dump_report(report).encode()) == report
    assert len(dump_report(report)) < MAX_LINE_BYTES / 10
    return report


def test_a_step_on_cpu() -> None:
    """CPU twin of `test_a_step_on_cuda`: the same path without a GPU."""
    report = check_report("cpu")
    assert report.memory_stats == {}
    assert report.phases[0].peak_reserved_bytes is None
    assert report.readings.total_bytes is None
    assert (report.readings.resident_peak_bytes or 0) > 100_000_000


@pytest.mark.gpu
def test_a_step_on_cuda() -> None:
    report = check_report("cuda")
    assert report.memory_stats["allocated_bytes.all.peak"] > 0
    assert "PyTorch CUDA memory summary" in report.memory_summary
    for figures in report.phases:
        assert figures.peak_reserved_bytes is not None
        assert figures.peak_reserved_bytes >= figures.peak_allocated_bytes
    readings = report.readings
    assert readings.total_bytes is not None
    assert readings.before_bytes is not None
    assert readings.idle_bytes is not None
    assert readings.peak_bytes is not None
    assert readings.before_bytes < readings.idle_bytes <= readings.peak_bytes <= readings.total_bytes


@pytest.mark.gpu
def test_running_out_of_device_memory_is_a_result() -> None:
    """Its CPU twin is `test_running_out_of_memory_is_a_result` in `test_measure`."""
    huge = LLAMA | {"hidden_size": 24_576, "num_hidden_layers": 40, "intermediate_size": 98_304}
    report = report_of(finish(start(scenario(huge), Options(device="cuda", threads=1, steps=1))))
    assert report.outcome == "out_of_memory"
    assert report.out_of_memory is not None


def test_settings_that_cannot_run_are_refused_by_field() -> None:
    seen = finish(start(scenario(GPT2, **{"parallel.tensor": 2})))
    assert seen.reason is ExitReason.REFUSED
    assert [remark.field for remark in seen.remarks] == ["parallel.tensor"]


@pytest.mark.long
def test_a_model_without_a_class_is_refused() -> None:
    seen = finish(start(scenario({"model_type": "no_such_model"})))
    assert seen.reason is ExitReason.REFUSED
    assert [(remark.field, remark.code) for remark in seen.remarks] == [("model", "model_not_built")]


@pytest.mark.long
def test_a_device_that_is_not_there() -> None:
    code = "import torch, sys; sys.exit(torch.cuda.is_available())"
    if subprocess.run([sys.executable, "-c", code], check=False).returncode:
        pytest.skip("this machine has CUDA")
    seen = finish(start(scenario(GPT2), Options(device="cuda")))
    assert seen.reason is ExitReason.CRASHED
    assert "cuda" in seen.detail


@pytest.mark.long
def test_the_childs_memory_limit() -> None:
    seen = finish(start(scenario(GPT2), Options(threads=1, memory_limit_bytes=150_000_000)))
    assert seen.reason is ExitReason.OUT_OF_MEMORY


@pytest.mark.long
def test_an_exception_in_the_child_is_told() -> None:
    document = scenario(GPT2, **{"training.sequence_length": 129})  # beyond its positions
    seen = finish(start(document))
    assert seen.reason is ExitReason.CRASHED
    assert "IndexError" in seen.detail
    assert any("Traceback" in line for line in seen.stderr)


@pytest.mark.parametrize(
    "line", [b"{}\n", b"nonsense\n", b"", b'{"protocol": 1, "scenario": {}, "config": {}}\n']
)
def test_a_bad_request_ends_at_once(line: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "profiler.worker"],
        cwd=ROOT,
        input=line,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["reason"] == "bad_request"


def _stop_in_the_middle(document: dict[str, Any]) -> None:
    job = start(document, Options(threads=1, steps=1000))
    until(lambda: job.is_over or len(job.snapshot().peaks) > 3)
    assert not job.is_over, job.snapshot()
    pid = job.snapshot().pid
    job.stop()
    seen = finish(job)
    assert seen.reason is ExitReason.STOPPED
    assert pid is not None
    assert not is_running(pid)


def test_stopping_a_real_step() -> None:
    _stop_in_the_middle(scenario(GPT2))


@pytest.mark.long
def test_five_real_cycles_leak_nothing() -> None:
    _stop_in_the_middle(scenario(GPT2))
    descriptors, before = open_descriptors(), set(children())
    for _ in range(5):
        _stop_in_the_middle(scenario(GPT2))
    until(lambda: profiler_threads() == [])
    assert set(children()) <= before
    assert open_descriptors() == descriptors


PARENT = """
import json, sys, time
from profiler.documents import Options
from profiler.runner import Runner
job = Runner().start(json.loads(sys.argv[1]), Options(threads=1, steps=1000))
while job.snapshot().progress is None:
    time.sleep(0.05)
print(job.snapshot().pid, flush=True)
time.sleep(600)
"""


@pytest.mark.long
def test_no_real_child_outlives_a_killed_app() -> None:
    command = [sys.executable, "-c", PARENT, json.dumps(scenario(GPT2))]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
    until(lambda: not is_running(pid))


@pytest.mark.long
def test_the_same_step_measures_the_same() -> None:
    one, other = (report_of(finish(start(scenario(GPT2)))) for _ in range(2))
    assert [(f.phase, f.peak_allocated_bytes, f.groups) for f in one.phases] == [
        (f.phase, f.peak_allocated_bytes, f.groups) for f in other.phases
    ]
    assert Scenario.model_validate(one.scenario) == Scenario.model_validate(scenario(GPT2))
