"""The band table: its statistics, how it is counted, and the shape of the shipped file."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any

import pytest

from benchmarks.bands import write
from benchmarks.bands_held import as_bands, coverage, held_out, judged, report
from benchmarks.bands_ratios import Ratio, layer_ratios
from benchmarks.bands_rows import Width, interval, spread, student_above, widths
from hardware_db import DATA, load_tables
from hardware_db.constants import read_bands
from hardware_db.scores import Coverage
from planner.accuracy.bands import MIN_ROWS, basis_order
from planner.accuracy.predict import Prediction
from planner.accuracy.truth import read_records


def runs(
    values: list[float],
    *,
    family: str = "f",
    runtime: str = "torchtune",
    task: str = "lora",
    layer: str = "device",
) -> list[Ratio]:
    return [Ratio(family=family, runtime=runtime, task=task, value=value, layer=layer) for value in values]


def rows_of(found: list[Ratio]) -> dict[tuple[str, str, str], Width]:
    return {(row.runtime, row.task, row.layer): row for row in widths(found)}


@pytest.mark.parametrize(
    ("dof", "t"), [(1, 6.314), (2, 2.920), (3, 2.353), (4, 2.132), (5, 2.015), (7, 1.895), (30, 1.697)]
)
def test_the_tail_of_students_t_is_that_of_printed_tables(dof: int, t: float) -> None:
    assert student_above(t, dof) == pytest.approx(0.05, abs=5e-5)
    assert student_above(0.0, dof) == pytest.approx(0.5)


def test_many_degrees_of_freedom_are_a_normal() -> None:
    assert student_above(1.3, 400) == pytest.approx(1 - NormalDist().cdf(1.3), abs=1e-3)


def test_the_spread_weighs_sources_alike() -> None:
    assert spread({"large": [0.0] * 99, "small": [0.2]}) == pytest.approx(math.sqrt(0.02))


def test_any_runtime_gets_the_interval_of_t_with_the_sources_as_degrees_of_freedom() -> None:
    found = [ratio for i in range(4) for ratio in runs([1.1, 1 / 1.1], family=f"f{i}")]
    row = rows_of(found)["*", "train", "device"]
    assert (row.num_rows, row.num_sources) == (8, 4)
    assert row.high == pytest.approx(math.exp(2.132 * math.log(1.1)), abs=2e-4)
    assert row.low == pytest.approx(1 / row.high, abs=2e-4)


def test_a_peak_whose_tool_is_not_named_may_be_either_outer_layers() -> None:
    """The two spreads are independent: their squares add up. One of layers that lie together is that of the device."""
    found = [ratio for i in range(4) for ratio in runs([1.1, 1 / 1.1], family=f"f{i}")]
    together, apart = (rows_of([replace(one, apart=x) for one in found]) for x in (0.0, 0.06))
    named, either = together["*", "train", "device"], apart["*", "train", "unnamed"]
    assert together["*", "train", "unnamed"].high == apart["*", "train", "device"].high == named.high
    assert math.log(either.high) == pytest.approx(2.132 * math.hypot(math.log(1.1), 0.06), abs=2e-4)


def test_fewer_sources_of_the_same_spread_make_a_wider_band() -> None:
    ends = [
        rows_of([r for i in range(n) for r in runs([1.1, 1 / 1.1], family=f"f{i}")])[
            "*", "train", "device"
        ].high
        for n in (1, 2, 5, 20)
    ]
    assert ends == sorted(ends, reverse=True)
    assert len(set(ends)) == len(ends)


def test_one_source_has_half_of_the_votes_and_many_have_nearly_all() -> None:
    anyone = {f"o{i}": [0.2, -0.2] for i in range(5)}
    _, alone = interval({"own": [0.01] * 50}, anyone)
    assert math.log(alone) == pytest.approx(0.2 * 1.476, abs=1e-3), (
        "10 % of a t of five sources lie beyond 1.476"
    )
    _, many = interval({f"own{i}": [0.01] * 50 for i in range(40)}, anyone)
    assert math.log(many) == pytest.approx(0.01, abs=2e-4)


def test_a_large_source_does_not_outvote_the_rest_of_its_runtime() -> None:
    large = runs([1.01] * 500, family="large")
    small = [r for i in range(8) for r in runs([1.5] * 3, family=f"small{i}")]
    assert rows_of([*large, *small])["torchtune", "lora", "device"].high >= 1.5


def test_the_prediction_lies_in_its_own_band() -> None:
    low, high = interval({"a": [0.5, 0.6], "b": [0.4]}, {"a": [0.5, 0.6], "b": [0.4]})
    assert low <= 1 <= high


def test_ends_are_rounded_outwards() -> None:
    low, high = interval({f"s{i}": [-0.123456789, 0.123456789] for i in range(60)}, {"s": [0.0]})
    assert low <= math.exp(-0.123456789)
    assert high >= math.exp(0.123456789)
    assert high * 1e4 == pytest.approx(round(high * 1e4))


def test_a_band_holds_as_many_runs_of_a_source_not_seen_as_it_says() -> None:
    """60 draws of ten sources with levels of their own, and runs of an eleventh, of any runtime and of theirs."""
    chance = random.Random(11)  # noqa: S311 - a repeatable draw, not a secret

    def source() -> list[float]:
        level = chance.gauss(0, 0.1)
        return [chance.gauss(level, 0.05) for _ in range(chance.choice((3, 15)))]

    shares: list[tuple[float, float]] = []
    for _ in range(60):
        seen, new = {f"f{i}": source() for i in range(10)}, source()
        ends = interval({}, seen), interval(seen, seen)
        unknown, own = (fmean(low <= math.exp(value) <= high for value in new) for low, high in ends)
        shares.append((unknown, own))
    assert all(0.85 <= fmean(found) <= 0.97 for found in zip(*shares, strict=True))


def test_a_runtime_needs_enough_runs_of_its_own() -> None:
    few, enough = [1.1] * (MIN_ROWS - 1), [1.1] * MIN_ROWS
    assert set(rows_of(runs(few))) == {("*", "train", layer) for layer in LAYERS_OF_TRAINING}
    assert ("torchtune", "lora", "device") in rows_of(runs(enough))


LAYERS_OF_TRAINING = ("allocated", "beyond", "device", "reserved", "unnamed")


def test_what_was_reserved_stands_for_the_device_and_live_tensors_do_not() -> None:
    found = [*runs([1.3] * 9, layer="reserved"), *runs([1.001] * 9, runtime="litgpt", layer="allocated")]
    rows = rows_of(found)
    assert rows["torchtune", "lora", "device"].high == rows["torchtune", "lora", "reserved"].high
    assert rows["*", "train", "allocated"].high < 1.01
    assert rows["*", "train", "device"].high > 1.3
    assert ("litgpt", "lora", "device") not in rows


def test_training_and_serving_are_kept_apart() -> None:
    rows = rows_of([*runs([1.1] * 9), *runs([3.0] * 9, runtime="vllm", task="serve")])
    assert rows["*", "serve", "device"].high > 3 > rows["*", "train", "device"].high
    assert {layer for _, task, layer in rows if task == "serve"} == {"device"}


def test_a_peak_without_a_tool_is_no_better_known_than_the_device() -> None:
    odd = runs([1.0] * 9, layer="unnamed", family="odd")
    rows = rows_of([*odd, *runs([1.3] * 9, runtime="trl")])
    assert rows["*", "train", "unnamed"].high == rows["*", "train", "device"].high
    assert rows["torchtune", "lora", "unnamed"].num_rows == 9
    assert ("torchtune", "lora", "device") not in rows


def test_held_out_runs_never_see_their_own_source() -> None:
    tables = load_tables()
    good = [ratio for i in range(9) for ratio in runs([1.02] * 4, family=f"good{i}")]
    strange = runs([3.0] * 20, family="strange")
    cells = {cell.family: cell for cell in coverage(held_out([*good, *strange], tables))}
    assert cells["strange"] == Coverage(
        family="strange",
        layer="device",
        n=20,
        inside=0,
        below=0,
        above=20,
        runs=20,
        runs_inside=0,
        half_width_frac=cells["strange"].half_width_frac,
    )
    assert cells["good0"].inside == 4


def test_a_run_that_no_row_answers_lies_outside() -> None:
    (one,) = held_out(runs([1.0]), load_tables())
    assert not one.inside
    assert not one.below
    assert not one.above


def test_the_count_is_of_the_rows_that_the_planner_answers_with() -> None:
    """Held out, a runtime read at the allocator gets what lies beyond it too; the same path as a plan's band."""
    tables = load_tables()
    found = [
        *runs([1.0] * 9, runtime="litgpt", layer="allocated", family="inner"),
        *runs([1.0, 1.1], layer="beyond", task="train", family="both"),
        *runs([1.05], runtime="litgpt", family="asked"),
        *runs([1.001] * 9, runtime="trl", family="others"),
    ]
    asked = [one for one in held_out(found, tables) if one.ratio.family == "asked"]
    assert [one.inside for one in asked] == [True]
    assert asked[0].band is not None
    assert asked[0].band.runtime == "litgpt"


def test_the_report_counts_runs_once_and_readings_each() -> None:
    rows = as_bands(
        [Width(runtime="*", task="train", num_rows=9, num_sources=1, low=0.9, high=1.1)], "2026-01-01"
    )
    inner = Ratio(family="a", runtime="trl", task="lora", value=1.2, layer="device", outermost=False)
    outer = Ratio(family="a", runtime="trl", task="lora", value=1.0)
    lines = report(judged([inner, outer], replace(load_tables(), bands=rows)), frozenset({"a"}))
    assert "all readings: 1 of 2 (50.0%)" in lines
    assert "runs, by their outermost reading: 1 of 1 (100.0%)" in lines
    assert "runs of sources that no constant was read from: 0 of 0 (0.0%)" in lines


def test_a_group_is_one_run_and_the_outermost_peak_counts() -> None:
    base: dict[str, Any] = json.loads(_line({})) | {"group": "run"}
    observed = [{"peak_allocated_bytes": 77, "device_used_bytes": 200}, {"device_used_bytes": 400}]
    lines = [json.dumps(base | {"id": str(i), "observed": o}) for i, o in enumerate(observed)]
    records = read_records([("f", "\n".join(lines))])
    figures = {"device_used_bytes": 200, "peak_allocated_bytes": 77}
    found = {ratio.layer: ratio for ratio in layer_ratios(records, lambda *_: Prediction(figures=figures))}
    assert {layer: ratio.value for layer, ratio in found.items() if layer != "beyond"} == pytest.approx(
        {"device": 1.5, "allocated": 1.0}
    )
    assert [layer for layer, ratio in found.items() if ratio.outermost] == ["device"]


def test_a_run_read_in_two_layers_stands_behind_three_rows() -> None:
    records = read_records([("f", _line({"peak_allocated_bytes": 90, "device_used_bytes": 220}))])
    figures = {"device_used_bytes": 200, "peak_allocated_bytes": 100}
    found = {
        ratio.layer: ratio.value for ratio in layer_ratios(records, lambda *_: Prediction(figures=figures))
    }
    assert found == pytest.approx({"device": 1.1, "allocated": 0.9, "beyond": 1.1 / 0.9})


def test_a_reading_below_what_the_job_must_hold_stands_behind_nothing_and_is_counted() -> None:
    records = read_records([("f", _line({"peak_allocated_bytes": 90}))])
    figures = {"peak_allocated_bytes": 100, "least_bytes": 91}
    found = layer_ratios(records, lambda *_: Prediction(figures=figures))
    assert [(ratio.value, ratio.possible) for ratio in found] == [(0.9, False)]
    assert widths(found) == []
    assert len(held_out(found, load_tables())) == 1


def _line(observed: dict[str, int]) -> str:
    scenario = {"task": "full", "model": {"id": "a/b"}, "hardware": {"devices": [{"gpu": "unknown"}]}}
    base = {"id": "0", "family": "f", "grade": "A", "rank": "any", "source": "s", "scenario": scenario}
    return json.dumps(base | {"observed": observed})


def test_the_file_is_the_same_for_the_same_rows_and_loads(tmp_path: Path) -> None:
    rows = [Width(runtime="*", task="serve", num_rows=12, num_sources=3, low=0.8, high=1.25)]
    for name in ("a.csv", "b.csv"):
        write(rows, tmp_path / name, "2026-01-02")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    (band,) = read_bands(tmp_path / "a.csv")
    assert (band.low_frac, band.high_frac, band.n_rows) == (0.8, 1.25, 12)
    assert "3 sources" in band.source


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
