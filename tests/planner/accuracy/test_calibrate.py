"""Kept runs set level and band of later plans: by hand, by simulation, and never across runtimes, cards or drivers."""

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from hardware_db import load_tables
from planner.accuracy.calibrate import (
    REPEAT_FRAC,
    KeptRun,
    calibrated,
    matching,
    posterior_weight,
    remaining_variance_frac,
    with_calibration,
)
from planner.estimate import plan as plan_for
from planner.plan_types import PeakBand, Plan
from planner.scenario import Scenario
from planner.units import GIB
from tests.profiler.scenarios import LLAMA, scenario


def plan_of(low: float = 0.8, high: float = 1.25, peak: int = 20 * GIB) -> Plan:
    """A plan whose published band is low..high of the peak."""
    asked = scenario(LLAMA, hardware={"devices": [{"gpu": "rtx-4090-24gb"}]})
    made = plan_for(Scenario.model_validate(asked), load_tables())
    band = PeakBand(round(peak * low), round(peak * high), 0.9, 40, "runtime_task")
    device = replace(made.devices[made.fullest], peak_bytes=peak, band=band)
    return replace(made, devices=tuple(device if one is made.worst else one for one in made.devices))


def kept(plan: Plan, ratio: float, **changes: Any) -> KeptRun:
    run = KeptRun(
        id="a",
        name="mine",
        created_at="2026-11-29T10:00:00+00:00",
        runtime=plan.resolved.runtime.name,
        task=plan.resolved.task,
        gpu_id=plan.worst.gpu_id,
        driver="570.86",
        question="q",
        layer="process",
        predicted_bytes=GIB,
        measured_bytes=round(GIB * ratio),
    )
    return replace(run, **changes)


def test_one_run_moves_the_level_half_way_and_narrows_the_band() -> None:
    plan = plan_of()
    found = calibrated(plan, [kept(plan, 1.21)])
    assert found is not None
    assert found.level == pytest.approx(1.1)  # the geometric middle of 1 and 1.21
    half = math.log(1.25) * math.sqrt(0.75)
    assert found.band.low_bytes == pytest.approx(20 * GIB * 1.1 * math.exp(-half))
    assert found.band.high_bytes == pytest.approx(20 * GIB * 1.1 * math.exp(half))
    assert (found.band.num_rows, found.band.basis, found.runs) == (1, "kept", ("a",))


def test_many_runs_give_their_own_level() -> None:
    plan = plan_of()
    found = calibrated(plan, [kept(plan, 1.3, id=str(number)) for number in range(100)])
    assert found is not None
    assert found.level == pytest.approx(1.3, rel=0.005)
    half = math.log(found.band.high_bytes / found.band.low_bytes) / 2
    assert half / math.log(1.25) == pytest.approx(math.sqrt(0.5), rel=0.01)


def test_the_very_same_question_is_answered_by_its_own_figure() -> None:
    plan = plan_of()
    runs = [kept(plan, 1.05), kept(plan, 1.07, id="b"), kept(plan, 2.0, id="c", question="other")]
    found = calibrated(plan, runs, question="q")
    assert found is not None
    assert (found.band.basis, found.runs) == ("kept_same", ("a", "b"))
    assert found.band.low_bytes == round(20 * GIB * runs[0].ratio * (1 - REPEAT_FRAC))
    assert found.band.high_bytes == round(20 * GIB * runs[1].ratio * (1 + REPEAT_FRAC))


@pytest.mark.parametrize(
    "changes",
    [
        {"runtime": "megatron"},
        {"gpu_id": "another-card"},
        {"task": "serve"},
        {"predicted_bytes": 0},
        {"measured_bytes": 0},
    ],
)
def test_other_runs_say_nothing(changes: dict[str, Any]) -> None:
    plan = plan_of()
    assert calibrated(plan, [kept(plan, 1.2, **changes)]) is None
    assert calibrated(plan, []) is None


def test_runs_of_another_driver_are_left_out() -> None:
    plan = plan_of()
    old = kept(plan, 2.0, id="old", driver="535.1", created_at="2025-01-01T00:00:00+00:00")
    new = kept(plan, 1.1, id="new")
    assert [run.id for run in matching(plan, [old, new])] == ["new"]
    assert [run.id for run in matching(plan, [old, new], "535.1")] == ["old"]
    assert matching(plan, [old, new], "999") == ()


def test_without_a_published_band_the_runs_alone_decide() -> None:
    made = plan_of()
    device = replace(made.worst, band=None)
    plan = replace(made, devices=tuple(device if one is made.worst else one for one in made.devices))
    found = calibrated(plan, [kept(plan, 1.1), kept(plan, 1.2, id="b")])
    assert found is not None
    assert found.level == pytest.approx(math.sqrt(1.1 * 1.2))
    assert found.band.low_bytes < 1.1 * plan.worst.peak_bytes < found.band.high_bytes


@pytest.mark.parametrize("num_runs", [1, 2, 5, 20])
def test_the_band_covers_what_the_model_of_errors_says(num_runs: int) -> None:
    """Machines and runs drawn as assumed: the next run falls into the calibrated band as often as it says."""
    chance = random.Random(num_runs)  # noqa: S311  # a simulation
    sigma = 0.1
    z = 1.6449  # 90 % of a normal distribution
    plan = plan_of(math.exp(-z * sigma), math.exp(z * sigma))
    hits, trials = 0, 3_000
    for _ in range(trials):
        machine = chance.gauss(0, sigma * math.sqrt(0.5))
        ratios = [math.exp(machine + chance.gauss(0, sigma * math.sqrt(0.5))) for _ in range(num_runs + 1)]
        found = calibrated(plan, [kept(plan, ratio) for ratio in ratios[:-1]])
        assert found is not None
        hits += found.band.low_bytes <= ratios[-1] * plan.worst.peak_bytes <= found.band.high_bytes
    assert hits / trials == pytest.approx(0.9, abs=0.02)


def test_no_runs_change_nothing() -> None:
    assert posterior_weight(0) == 0
    assert remaining_variance_frac(0) == 1


def test_the_plan_takes_the_band() -> None:
    plan = plan_of()
    found = calibrated(plan, [kept(plan, 1.2)])
    assert found is not None
    changed = with_calibration(plan, found)
    assert changed.worst.band == found.band
    assert changed.worst.peak_bytes == plan.worst.peak_bytes
