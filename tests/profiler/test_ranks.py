"""Two real ranks on gloo: DDP under `torchrun`, FSDP2 side by side, and ranks that fail. No PyTorch in this process."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.scenario import Scenario
from profiler.compare import compare
from profiler.documents import Options
from profiler.job_types import ExitReason
from profiler.plan_request import prepare
from profiler.rank_place import RankPlace, rank_place, why_not_runnable_here
from profiler.report import Report, load_report
from profiler.runner import Job, Runner
from tests.profiler.jobs import finish, until
from tests.profiler.scenarios import LLAMA, scenario

ROOT = Path(__file__).resolve().parents[2]
EVEN = LLAMA | {"vocab_size": 1024}
TWO: dict[str, Any] = {"hardware": {"devices": [{"gpu": "unknown", "count": 2}]}}
PLACES = [RankPlace(rank=rank, world=2, local_rank=rank, local_world=2) for rank in range(2)]


def document(**changes: Any) -> dict[str, Any]:
    return scenario(EVEN, **TWO, **changes)


def planned(asked: dict[str, Any]) -> Any:
    return plan(Scenario.model_validate(asked), load_tables())


@contextmanager
def environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start_both(asked: dict[str, Any], options: Options) -> list[Job]:
    """Two workers with the environment that `torchrun` would give them."""
    port, jobs = free_port(), []
    for rank in range(2):
        prepared = prepare(planned(asked), "cpu", None, PLACES[rank])
        assert prepared.refused == ()
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        with environment(**own, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1"):
            jobs.append(Runner().start(prepared.scenario, options, config=prepared.config))
    return jobs


def report_of(job: Job) -> Report:
    seen = finish(job)
    assert seen.reason is ExitReason.DONE, (seen.reason, seen.detail, seen.remarks, seen.stderr[-5:])
    assert seen.report is not None
    return seen.report


@pytest.mark.parametrize(
    ("known", "place"),
    [
        ({}, None),
        ({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "x"}, None),
        ({"RANK": "1", "WORLD_SIZE": "2"}, None),  # some cluster's own variables
        ({"RANK": "one", "WORLD_SIZE": "2", "MASTER_ADDR": "x"}, None),
        (
            {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "x"},
            RankPlace(rank=9, world=16, local_rank=1, local_world=8),
        ),
    ],
)
def test_a_launcher_is_told_by_its_environment(known: dict[str, str], place: RankPlace | None) -> None:
    assert rank_place(known) == place


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({"parallel.data": 2}, set()),
        ({"parallel.data": 2, "parallel.sharding": "fsdp"}, set()),
        ({"parallel.tensor": 2, "runtime.name": "generic"}, set()),
        ({"parallel.pipeline": 2}, {"division_not_traced", "ranks_differ"}),
        ({"parallel.data": 2, "parallel.sharding": "zero3"}, {"zero_not_traced"}),
        ({"parallel.data": 2, "training.optimizer.in_backward": True}, {"in_backward_on_ranks"}),
        ({"parallel.data": 2, "training.attention": "flex"}, {"attention_not_measured"}),
    ],
)
def test_what_ranks_can_run(changes: dict[str, Any], codes: set[str]) -> None:
    resolved = planned(document(**changes)).resolved
    assert {remark.code for remark in why_not_runnable_here(resolved, "cpu", PLACES[0])} == codes
    alone = {remark.code for remark in why_not_runnable_here(resolved, "cpu", None)}
    assert "several_devices" in alone


def test_the_job_and_the_launcher_must_agree() -> None:
    four = RankPlace(rank=0, world=4, local_rank=0, local_world=4)
    (remark,) = why_not_runnable_here(planned(document(**{"parallel.data": 2})).resolved, "cpu", four)
    assert (remark.code, remark.params) == ("ranks_differ", {"given": 2, "allowed": "4"})


def test_ranks_of_a_machine_share_its_memory() -> None:
    made = planned(document(**{"parallel.data": 2}))
    one, two = prepare(made, "cpu", None), prepare(made, "cpu", None, PLACES[0])
    assert two.needed_bytes == 2 * one.needed_bytes


def test_ddp_under_torchrun(tmp_path: Path) -> None:
    """The command as it is documented: one report, of both ranks, as predicted."""
    asked = document(**{"parallel.data": 2})
    file, out = tmp_path / "scenario.json", tmp_path / "report.json"
    file.write_text(json.dumps(asked), encoding="utf-8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [
        *launch,
        "-m",
        "profiler",
        "run",
        str(file),
        "--device",
        "cpu",
        "--steps",
        "2",
        "--json",
        str(out),
    ]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("completed; parameters") == 1  # the first rank speaks for all
    report = load_report(out.read_bytes())
    check_ranks(report)
    assert report.ranks[0].communication is not None
    assert report.ranks[0].communication.calls["gloo:all_reduce"] >= 1
    for phase in compare(planned(asked).worst.ledger, report).phases:
        assert phase.is_close, (phase.phase, phase.total)
        (talk,) = [row for row in phase.bundles if row.name == "communication"]
        assert talk.residual_bytes == 0  # the buckets are told apart


def check_ranks(report: Report) -> None:
    assert [(rank.rank, rank.outcome) for rank in report.ranks] == [(0, "completed"), (1, "completed")]
    assert report.ranks[0].peak_allocated_bytes == report.ranks[1].peak_allocated_bytes
    assert report.communication is not None
    assert report.communication.frac is not None
    assert 0 < report.communication.frac <= 1


def test_fsdp2_side_by_side() -> None:
    """Each rank holds half of the states, and the peak is as predicted."""
    asked = document(**{"parallel.data": 2, "parallel.sharding": "fsdp"})
    first, second = (report_of(job) for job in start_both(asked, Options(threads=1, steps=1)))
    check_ranks(first)
    assert second.ranks == ()
    rest = next(figures for figures in first.phases if figures.phase == "rest")
    sizes = {group.name: group.bytes for group in rest.groups}
    assert first.params_total is not None
    assert sizes["parameters"] == pytest.approx(4 * first.params_total / 2, rel=0.01)
    assert sizes["exp_avg"] == sizes["parameters"]
    compared = compare(planned(asked).worst.ledger, first)
    forward = next(phase for phase in compared.phases if phase.phase == "forward")
    (talk,) = [row for row in forward.bundles if row.name == "communication"]
    assert talk.residual_bytes == 0  # as are gathered units
    allocated = compared.layers[0]
    assert allocated.residual_frac == pytest.approx(0, abs=0.01)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_what_a_rank_measured_is_kept_when_another_is_killed() -> None:
    asked = document(**{"parallel.data": 2})
    first, second = start_both(asked, Options(threads=1, steps=1000))
    until(lambda: bool(first.snapshot().peaks) or first.is_over)
    pid = second.snapshot().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    report = report_of(first)
    assert (report.outcome, report.remarks[-1].code) == ("failed", "rank_failed")
    assert [figures.phase for figures in report.phases][:2] == ["rest", "forward"]
    assert [(rank.rank, rank.outcome) for rank in report.ranks] == [(0, "failed"), (1, "silent")]
    assert report.ranks[0].detail
    assert finish(second).signal == "SIGKILL"


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_what_a_rank_measured_is_kept_when_another_hangs() -> None:
    """A collective waits half of the job's time for it."""
    asked = document(**{"parallel.data": 2})
    first, second = start_both(asked, Options(threads=1, steps=1000, timeout_s=60))
    until(lambda: bool(first.snapshot().peaks) or first.is_over)
    pid = second.snapshot().pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        report = report_of(first)
    finally:
        os.kill(pid, signal.SIGKILL)
        finish(second)
    assert report.outcome == "failed"
    assert report.phases
    assert [(rank.rank, rank.outcome) for rank in report.ranks] == [(0, "failed"), (1, "silent")]
