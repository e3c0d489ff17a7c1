"""The band table: its statistics, and the shape of the shipped file."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bands import (
    NEAREST_FRAC,
    Ratio,
    Width,
    held_out,
    interval,
    layer_ratios,
    ratios,
    unseen,
    widths,
    write,
)
from hardware_db import DATA, load_tables
from hardware_db.constants import read_bands
from planner.bands import MIN_ROWS, basis_order
from planner.predict import Prediction
from planner.truth import read_records


def runs(
    values: list[float], *, family: str = "f", runtime: str = "torchtune", task: str = "lora"
) -> list[Ratio]:
    return [Ratio(family=family, runtime=runtime, task=task, value=value) for value in values]


def factors(found: list[Ratio]) -> dict[tuple[str, str], float]:
    return {(row.runtime, row.task): row.high for row in widths(found) if row.layer == "device"}


@pytest.mark.parametrize(("n", "rank"), [(9, 9), (10, 10), (18, 18)])
def test_few_runs_give_the_corrected_quantile_on_both_sides(n: int, rank: int) -> None:
    low, high = interval([(math.exp(i), 1.0) for i in range(1, n + 1)])
    assert low == pytest.approx(math.exp(-rank))
    assert high == pytest.approx(math.exp(rank))


@pytest.mark.parametrize(
    ("n", "low", "high"), [(19, 1, 19), (30, 1, 30), (39, 2, 38), (40, 2, 39), (99, 5, 95)]
)
def test_many_runs_leave_five_percent_on_each_side(n: int, low: int, high: int) -> None:
    values = [(math.exp(i - n / 2), 1.0) for i in range(1, n + 1)]
    found = interval(values)
    assert found[0] == pytest.approx(math.exp(low - n / 2))
    assert found[1] == pytest.approx(math.exp(high - n / 2))


def test_the_prediction_lies_in_its_own_band() -> None:
    assert interval([(1.5 + i / 100, 1.0) for i in range(40)])[0] == 1.0
    assert interval([(0.5 + i / 100, 1.0) for i in range(40)])[1] == 1.0


def test_too_few_rows_take_the_furthest() -> None:
    assert interval([(2.0, 1.0), (1.1, 1.0)])[1] == pytest.approx(2.0)


def test_the_interval_covers_new_ratios_as_often_as_it_says() -> None:
    """900 draws against bands made from 40 others; 90 % less three standard errors have to lie inside."""
    chance = random.Random(7)  # noqa: S311 - a repeatable draw, not a secret
    inside = 0
    for _ in range(900):
        low, high = interval([(math.exp(chance.gauss(0.1, 0.2)), 1.0) for _ in range(40)])
        inside += low <= math.exp(chance.gauss(0.1, 0.2)) <= high
    assert inside / 900 > 0.9 - 3 * math.sqrt(0.09 / 900)


def test_a_runtime_needs_enough_runs_of_its_own() -> None:
    few, enough = [1.1] * (MIN_ROWS - 1), [1.1] * MIN_ROWS
    assert ("torchtune", "lora") not in factors(runs(few))
    assert ("torchtune", "lora") in factors(runs(enough))
    assert set(factors(runs(few))) == {("*", "train")}


def test_a_task_speaks_for_the_next_source_where_many_have_been_seen() -> None:
    def sources(number: int) -> list[Ratio]:
        return [ratio for i in range(number) for ratio in runs([1.1], family=f"f{i}")]

    assert ("*", "lora") not in factors(sources(MIN_ROWS - 1))
    assert ("*", "lora") in factors(sources(MIN_ROWS))


def test_a_band_for_sources_not_seen_holds_as_many_of_their_runs_as_it_says() -> None:
    """300 draws of ten sources with levels of their own, and runs of an eleventh."""
    chance = random.Random(11)  # noqa: S311 - a repeatable draw, not a secret

    def source(name: str) -> list[Ratio]:
        level = chance.gauss(0, 0.1)
        return runs([math.exp(chance.gauss(level, 0.05)) for _ in range(chance.choice((5, 50)))], family=name)

    inside, total = 0.0, 0
    for _ in range(300):
        low, high = unseen([ratio for i in range(10) for ratio in source(f"f{i}")])
        new = source("new")
        inside += sum(low <= ratio.value <= high for ratio in new) / len(new)
        total += 1
    assert 0.82 <= inside / total <= 0.95


def test_training_and_serving_are_kept_apart() -> None:
    found = factors([*runs([1.1] * 9), *runs([3.0] * 9, runtime="vllm", task="serve")])
    assert found["*", "train"] == pytest.approx(1.1)
    assert found["*", "serve"] == pytest.approx(3.0)


def test_a_large_source_does_not_decide_for_the_rest() -> None:
    large = runs([1.01] * 500, family="large")
    small = [r for i in range(8) for r in runs([1.5] * 3, family=f"small{i}")]
    assert factors([*large, *small])["*", "lora"] == pytest.approx(1.5)


def test_held_out_runs_never_see_their_own_source() -> None:
    good = runs([1.02] * 20, family="good")
    strange = runs([3.0] * 20, family="strange")
    assert held_out([*good, *strange])["torchtune", "lora"] == (20, 40)


def test_a_group_is_one_run_and_the_outermost_peak_counts() -> None:
    base: dict[str, Any] = {
        "family": "f",
        "grade": "A",
        "rank": "any",
        "source": "s",
        "group": "run",
        "scenario": {
            "task": "full",
            "model": {"id": "a/b"},
            "hardware": {"devices": [{"gpu": "unknown"}]},
        },
    }
    observed = [{"peak_allocated_bytes": 1, "device_used_bytes": 200}, {"device_used_bytes": 400}]
    lines = [json.dumps(base | {"id": str(i), "observed": o}) for i, o in enumerate(observed)]
    records = read_records([("f", "\n".join(lines))])
    figures = {"device_used_bytes": 200, "peak_allocated_bytes": 77}
    (ratio,) = ratios(records, lambda *_: Prediction(figures=figures))
    assert ratio.task == "full"
    assert ratio.value == pytest.approx(1.5)


def test_a_run_read_in_two_layers_stands_behind_three_rows() -> None:
    records = read_records([("f", _line({"peak_allocated_bytes": 90, "device_used_bytes": 220}))])
    figures = {"device_used_bytes": 200, "peak_allocated_bytes": 100}
    found = {
        ratio.layer: ratio.value for ratio in layer_ratios(records, lambda *_: Prediction(figures=figures))
    }
    assert found == pytest.approx({"device": 1.1, "allocated": 0.9, "beyond": 1.1 / 0.9})


def test_a_reading_below_what_the_job_must_hold_stands_behind_nothing() -> None:
    records = read_records([("f", _line({"peak_allocated_bytes": 90}))])
    figures = {"peak_allocated_bytes": 100, "least_bytes": 91}
    assert layer_ratios(records, lambda *_: Prediction(figures=figures)) == []


def test_a_peak_without_a_tool_stands_behind_a_band_of_its_own() -> None:
    records = read_records([("f", _line({"peak_unknown_bytes": 90}))])
    figures = {"peak_unknown_bytes": 100}
    (ratio,) = layer_ratios(records, lambda *_: Prediction(figures=figures))
    assert (ratio.layer, ratio.value) == ("unnamed", 0.9)
    assert {row.layer for row in widths([ratio] * MIN_ROWS)} == {"unnamed"}


def test_no_interval_is_narrower_than_three_percent() -> None:
    (row,) = (row for row in widths(runs([1.001] * 30)) if row.runtime == "torchtune")
    assert (row.low, row.high) == (1 - NEAREST_FRAC, 1 + NEAREST_FRAC)


def _line(observed: dict[str, int]) -> str:
    scenario = {"task": "full", "model": {"id": "a/b"}, "hardware": {"devices": [{"gpu": "unknown"}]}}
    base = {"id": "0", "family": "f", "grade": "A", "rank": "any", "source": "s", "scenario": scenario}
    return json.dumps(base | {"observed": observed})


def test_the_file_is_the_same_for_the_same_rows_and_loads(tmp_path: Path) -> None:
    rows = [Width(runtime="*", task="serve", num_rows=12, low=0.8, high=1.25)]
    for name in ("a.csv", "b.csv"):
        write(rows, tmp_path / name, "2026-01-02")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    (band,) = read_bands(tmp_path / "a.csv")
    assert (band.low_frac, band.high_frac, band.n_rows) == (0.8, 1.25, 12)


def test_the_shipped_table_answers_every_task_and_is_wide_where_it_is_thin() -> None:
    rows = {(band.runtime, band.task, band.layer): band for band in read_bands(DATA / "bands.csv")}
    for task in ("pretrain", "full", "lora", "qlora", "serve"):
        assert any(
            (of, of_task, "device") in rows for _, of, of_task in basis_order("an_engine_of_tomorrow", task)
        )
    assert ("*", "train", "beyond") in rows
    for band in rows.values():
        assert band.low_frac <= 1 <= band.high_frac
        assert band.low_frac < band.high_frac
        assert band.runtime == "*" or band.n_rows >= MIN_ROWS
    assert load_tables().bands
