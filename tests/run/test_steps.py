"""run.py: the steps of `test` and `check`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import run


def test_the_tests_come_last_and_get_their_arguments() -> None:
    steps = run.short_steps(Path("py"), ["-k", "units"])
    without, within = steps[-2:]
    assert [*without.command[-2:], *within.command[-2:]] == ["-k", "units", "-k", "units"]
    assert without.command[:-2] == [
        "py",
        "-m",
        "pytest",
        "-m",
        "not long and not browser",
        *run.side_by_side(),
    ]
    assert within.command[:-2] == ["py", "-m", "pytest", "-m", "browser and not long"]
    assert without.fine == within.fine == (0, 5)  # one of them may have no test of the name
    assert all(step.fine == (0,) for step in run.short_steps(Path("py"), []))
    assert {"ruff", "mypy", "import-linter"} <= {step.name for step in steps}


def test_the_long_run_takes_every_benchmark(tmp_path: Path) -> None:
    assert all((run.ROOT / "benchmarks" / f"{name}.py").is_file() for name in run.BENCHMARKS)
    for name in run.BENCHMARKS:
        (tmp_path / f"{name}.py").touch()
    steps = run.long_steps(Path("py"), [], tmp_path)
    count = len(run.BENCHMARKS)
    assert [step.command[-1] for step in steps[-count:]] == [f"benchmarks.{name}" for name in run.BENCHMARKS]
    without, within = steps[-count - 2 : -count]
    assert without.command[-2:] == ["-m", "(long or hypothesis) and not browser"]
    assert within.command[-2:] == ["-m", "long and browser"]
    assert within.again[-1] == "--last-failed"


@pytest.mark.parametrize(
    ("statuses", "result"), [((0, 0), 0), ((1, 0), 1), ((0, 2), 1), ((5, 0), 1)], ids=str
)
def test_one_failing_step_fails_the_run_and_the_rest_still_runs(
    capsys: pytest.CaptureFixture[str], statuses: tuple[int, ...], result: int
) -> None:
    steps = [
        run.Step(f"step {status}", [sys.executable, "-c", f"raise SystemExit({status})"])
        for status in statuses
    ]
    assert run.run_steps(steps) == result
    printed = capsys.readouterr().out
    assert all(f"--- step {status}" in printed for status in statuses)
    assert ("Failed: step" in printed) == bool(result)


def test_no_long_tests_is_no_failure() -> None:
    assert run.run_step(run.Step("x", [sys.executable, "-c", "raise SystemExit(5)"], fine=(0, 5)))


@pytest.mark.parametrize(("second", "passed"), [(0, True), (1, False)])
def test_one_more_try_counts_and_is_shown(
    capsys: pytest.CaptureFixture[str], second: int, *, passed: bool
) -> None:
    first, again = ([sys.executable, "-c", f"raise SystemExit({status})"] for status in (1, second))
    assert run.run_step(run.Step("x", first, again=tuple(again))) is passed
    assert "x: what failed, once more" in capsys.readouterr().out


def test_only_tests_have_one_more_try_and_only_those_that_failed() -> None:
    again = {step.name: step.again for step in run.short_steps(Path(sys.executable), []) if step.again}
    assert list(again) == ["pytest", "pytest, in the browser"]
    assert all(command[-1] == "--last-failed" for command in again.values())
