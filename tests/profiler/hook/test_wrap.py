"""A training script under `wrap`: its results stay bit for bit, and the report says what it took."""

import sys
from pathlib import Path

import pytest

from profiler.report import Report
from tests.profiler.hook.scripts import SCRIPT, Ran, bare, run, text_of, wrapped

PHASES = ["rest", "forward", "loss", "backward", "optimizer_step"]
STEPS = 6


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return bare(tmp_path_factory.mktemp("bare"), "--steps", str(STEPS), "--accumulate", "2")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("wrapped")
    return wrapped(folder, "--steps", str(STEPS), "--accumulate", "2", options=("--follow", "3"))


def report_of(ran: Ran) -> Report:
    assert ran.report is not None, ran.err
    return ran.report


def test_training_is_bit_for_bit_the_same(alone: Ran, watched: Ran) -> None:
    """Every loss, the weights' digest and the next random number; one step of it was followed tensor by tensor."""
    assert alone.code == watched.code == 0, watched.err
    assert len([line for line in alone.out if line.startswith("loss 0x1.")]) == 2 * STEPS
    assert watched.out == alone.out


def test_the_report_has_steps_and_phases(watched: Ran) -> None:
    report = report_of(watched)
    assert (report.outcome, report.program.way, report.program.name) == ("completed", "wrap", "train.py")
    assert report.program.exit_code == 0
    assert [figures.phase for figures in report.phases] == PHASES
    assert [memory.step for memory in report.memory_by_step] == list(range(1, STEPS + 1))
    assert all(memory.resident_bytes for memory in report.memory_by_step), text_of(report)
    times = [(time.step, time.phase) for time in report.steps]
    assert (2, "forward") in times
    assert (STEPS, "optimizer_step") in times
    assert report.remarks == ()


def test_the_model_that_trains_is_found_behind_one_that_does_not(watched: Ran) -> None:
    """The teacher is called first, in training mode, and without gradients."""
    report = report_of(watched)
    assert report.params_total == report.params_trainable == 23_653


def test_followed_tensors_are_counted_exactly(watched: Ran) -> None:
    report = report_of(watched)
    optimizer = next(figures for figures in report.phases if figures.phase == "optimizer_step")
    sizes = {group.name: group.bytes for group in optimizer.groups}
    assert report.params_total is not None
    assert sizes["parameters"] == sizes["gradients"] == sizes["exp_avg"] == 4 * report.params_total
    for figures in report.phases:
        assert sum(group.bytes for group in figures.groups) == figures.peak_allocated_bytes


def test_the_hook_says_what_it_took(watched: Ran) -> None:
    overhead = report_of(watched).overhead
    assert overhead is not None
    assert (overhead.sampled, overhead.seen) == (STEPS, STEPS)
    assert overhead.hook_s > 0
    assert overhead.frac is not None


def test_nothing_of_ours_is_left_in_the_program(watched: Ran) -> None:
    assert "modules []" in watched.out


def test_a_module_of_the_programs_own_may_bear_our_name(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "profiler.py").write_text("OWN = 'mine'\n", encoding="utf-8")
    (own / "main.py").write_text(
        "import torch, profiler\n"
        "net = torch.nn.Linear(2, 2)\nopt = torch.optim.SGD(net.parameters(), 0.1)\n"
        "net(torch.ones(1, 2)).sum().backward(); opt.step()\n"
        "import profiler as again\nprint(profiler.OWN, again.OWN, 'planner' in __import__('sys').modules)\n",
        encoding="utf-8",
    )
    ran = wrapped(tmp_path, script=own / "main.py")
    assert ran.out == ["mine mine False"], ran.err
    assert report_of(ran).params_total == 6


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_what_was_measured_before_the_end_is_kept(tmp_path: Path) -> None:
    """Killed outright: no last words, and every step before is there."""
    ran = wrapped(tmp_path, "--kill-at", "4")
    report = report_of(ran)
    assert ran.code == 128 + 9
    assert (report.outcome, report.program.signal) == ("interrupted", "SIGKILL")
    assert [memory.step for memory in report.memory_by_step] == [1, 2]
    assert [remark.code for remark in report.remarks] == ["program_was_ended"]


def test_a_program_that_raises(tmp_path: Path) -> None:
    ran = wrapped(tmp_path, "--raise-at", "4")
    report = report_of(ran)
    assert ran.code == 1
    assert "ValueError: the data ran out" in ran.err  # its own words, on its own stream
    assert report.outcome == "failed"
    assert len(report.memory_by_step) == 3
    assert report.remarks[0].code == "program_raised"
    assert report.remarks[0].params == {"detail": "ValueError: the data ran out"}


def test_a_program_that_trains_nothing(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("print(1); raise SystemExit(3)\n", encoding="utf-8")
    ran = wrapped(tmp_path, script=tmp_path / "main.py")
    assert (ran.code, ran.out, ran.report) == (3, ["1"], None)
    assert "nothing trained" in ran.err


@pytest.mark.long
def test_ranks_of_a_launcher_are_one_report(tmp_path: Path) -> None:
    """The hook is in every rank that the launcher starts, and in the launcher, which trains nothing."""
    script = SCRIPT.with_name("train_ranks.py")
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script))
    alone = run([sys.executable, *launch], tmp_path)
    ran = wrapped(tmp_path, *launch[1:], script=Path(launch[0]))
    report = report_of(ran)
    assert ran.code == alone.code == 0, ran.err
    assert sorted(ran.out) == sorted(alone.out)
    assert [(rank.rank, rank.outcome) for rank in report.ranks] == [(0, "completed"), (1, "completed")]
    assert report.params_total == 72
    assert [memory.step for memory in report.memory_by_step] == [1, 2, 3, 4]
