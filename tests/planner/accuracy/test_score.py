"""The score: what a prediction may see, how errors are counted, what the summary says."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from hardware_db import load_tables
from planner.accuracy.predict import Prediction, devices_of, fits, prediction_for, predictor
from planner.accuracy.score import POOLED, Cell, Score, as_json, percentile, score
from planner.accuracy.truth import Record, read_records
from planner.estimate import plan
from planner.hardware import Band
from planner.ledger import Layer, Phase
from planner.plan_types import Verdict
from planner.scenario import Scenario
from planner.units import GIB
from planner.validation import parse_scenario

TABLES = load_tables()
BANDED = replace(
    TABLES,
    bands=(
        Band(
            runtime="*",
            task="train",
            layer="device",
            n_rows=9,
            low_frac=0.95,
            high_frac=1.05,
            made_on="2026-01-01",
            source="made up",
        ),
    ),
)

SCENARIO = {
    "version": 1,
    "task": "pretrain",
    "model": {"id": "meta-llama/Llama-3.1-8B"},
    "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 8}], "margin_frac": 0.2},
    "parallel": {"sharding": "fsdp"},
}


def records(*changes: dict[str, Any]) -> tuple[Record, ...]:
    base: dict[str, Any] = {
        "family": "f",
        "grade": "A",
        "scenario": SCENARIO,
        "rank": "any",
        "observed": {"peak_allocated_bytes": 100},
        "source": "s",
    }
    lines = [json.dumps({"id": f"r{i}"} | base | change) for i, change in enumerate(changes)]
    return read_records([("f", "\n".join(lines))])


def saying(**figures: Any) -> Any:
    """A predictor that always says the same."""
    return lambda *_: Prediction(figures=figures)


def cell(result: Score, metric: str, family: str) -> Cell:
    (found,) = [c for c in result.cells if (c.metric, c.family) == (metric, family)]
    return found


# --- a prediction can't see what was observed


def test_the_predictor_gets_scenario_and_rank_and_nothing_else() -> None:
    seen: list[tuple[object, ...]] = []

    def spy(*arguments: object) -> Prediction:
        seen.append(arguments)
        return Prediction(figures={"peak_allocated_bytes": 1})

    chosen = records({"rank": "last_stage"})
    score(chosen, spy)
    assert seen == [(chosen[0].scenario, "last_stage")]
    assert isinstance(seen[0][0], Scenario)


def test_predictions_stay_the_same_whatever_was_observed() -> None:
    answers = []
    for observed in ({"peak_allocated_bytes": 1}, {"peak_allocated_bytes": 10**12, "fits": False}):
        result = score(records({"observed": observed}), predictor(TABLES))
        answers.append(next(row.predicted for row in result.rows if row.metric == "peak_allocated_bytes"))
    assert answers[0] == answers[1]


# --- errors


@pytest.mark.parametrize(
    ("predicted", "rounding", "error"),
    [(110, 0, 0.1), (90, 0, -0.1), (100, 0, 0.0), (104, 4, 0.0), (96, 4, 0.0), (105, 4, 0.05)],
)
def test_error_is_zero_within_rounding(predicted: int, rounding: int, error: float) -> None:
    result = score(records({"rounding_bytes": rounding}), saying(peak_allocated_bytes=predicted))
    assert result.rows[0].error == pytest.approx(error)


def test_undetermined_fields_are_left_out_and_counted() -> None:
    change = {"observed": {"peak_allocated_bytes": 5, "fits": True}, "undetermined": ["peak_allocated_bytes"]}
    result = score(records(change), saying(peak_allocated_bytes=9, fits=True))
    assert [row.metric for row in result.rows] == ["fits"]
    assert result.num_undetermined == 1


def test_what_has_no_prediction_is_unsupported_with_a_reason() -> None:
    change = {"observed": {"peak_allocated_bytes": 5, "kv_bytes": 7, "state_bytes": 3}}
    result = score(records(change), saying(peak_allocated_bytes=5, state_bytes=None))
    assert [row.metric for row in result.rows] == ["peak_allocated_bytes"]
    assert {item.metric for item in result.unsupported} == {"kv_bytes", "state_bytes"}
    assert all(item.reason for item in result.unsupported)
    assert cell(result, "kv_bytes", POOLED).unsupported == 1


def test_a_scenario_that_cannot_be_said_or_planned_is_unsupported() -> None:
    strange = {"id": "strange", "scenario": {"version": 1, "task": "distil"}}
    unknown = {"id": "unknown", "scenario": SCENARIO | {"model": {"id": "no/thing"}}}
    result = score(records(strange, unknown), predictor(TABLES))
    assert [item.id for item in result.unsupported] == ["strange", "unknown"]
    assert result.unsupported[0].reason == "not_one_of at scenario.task"
    assert result.unsupported[1].reason == "model_id_unknown at model.id"


def test_speed_has_an_answer_with_its_band() -> None:
    result = score(
        records({"observed": {"step_time_s": 1.0, "tokens_per_s_per_gpu": 100.0}}), predictor(TABLES)
    )
    assert result.unsupported == ()
    assert {row.metric for row in result.rows} == {"step_time_s", "tokens_per_s_per_gpu"}
    assert all(row.error is not None and row.inside_band is not None for row in result.rows)


# --- cells


def test_cells_under_eight_rows_are_pooled() -> None:
    big = [{"id": f"b{i}", "family": "big"} for i in range(8)]
    small = [{"id": f"{name}{i}", "family": name} for name in ("x", "y") for i in range(3)]
    result = score(records(*big, *small), saying(peak_allocated_bytes=100))
    assert {(c.family, c.n) for c in result.cells} == {("big", 8), (POOLED, 6)}


def test_a_group_counts_once() -> None:
    devices = [
        {"id": f"d{i}", "group": "run", "observed": {"peak_allocated_bytes": v}}
        for i, v in enumerate((50, 200))
    ]
    others = [{"id": f"o{i}"} for i in range(7)]
    result = score(records(*devices, *others), saying(peak_allocated_bytes=100))
    found = cell(result, "peak_allocated_bytes", "f")
    assert len(result.rows) == 9
    assert found.n == 8
    assert found.bias == pytest.approx((1.0 - 0.5) / 2 / 8)
    assert found.p90_abs_error == pytest.approx(0.75)


def test_median_percentile_and_bias() -> None:
    values = [100 / (1 + e / 100) for e in (-3, 1, 2, 4, 5, 6, 7, 8, 9, 10)]
    changes = [
        {"id": f"v{i}", "observed": {"peak_allocated_bytes": round(v * 1000)}} for i, v in enumerate(values)
    ]
    found = cell(score(records(*changes), saying(peak_allocated_bytes=100_000)), "peak_allocated_bytes", "f")
    assert found.median_abs_error == pytest.approx(0.055, abs=1e-4)
    assert found.p90_abs_error == pytest.approx(0.09, abs=1e-4)
    assert found.bias == pytest.approx(0.049, abs=1e-4)


def test_percentile_takes_the_value_that_enough_do_not_exceed() -> None:
    assert percentile([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 0.9) == 9
    assert percentile([1, 2, 3], 0.9) == 3
    assert percentile([5], 0.9) == 5


def test_share_inside_the_band() -> None:
    def predict(*_asked: object) -> Prediction:
        return Prediction(
            figures={"peak_allocated_bytes": 100}, bands={"peak_allocated_bytes": (80.0, 110.0)}
        )

    values = (79, 80, 100, 110, 111, 100, 100, 100)
    changes = [{"id": f"v{i}", "observed": {"peak_allocated_bytes": v}} for i, v in enumerate(values)]
    result = score(records(*changes), predict)
    assert cell(result, "peak_allocated_bytes", "f").inside_band_frac == pytest.approx(6 / 8)
    assert [row.inside_band for row in result.rows[:2]] == [False, True]


# --- verdicts


def verdicts(*pairs: tuple[bool | None, bool, int, list[str]]) -> Score:
    """Records with (said, happened, bytes over, assumed)."""
    answers = iter(pairs)

    def predict(*_asked: object) -> Prediction:
        said, _, over, _ = next(answers)
        return Prediction(figures={"fits": said}, over_bytes=over)

    changes = [{"observed": {"fits": happened}, "assumed": assumed} for _, happened, _, assumed in pairs]
    return score(records(*changes), predict)


def test_the_four_cells_and_what_is_unsafe() -> None:
    guess = ["empty training metrics read as an out-of-memory failure; 16-bit adapters"]
    table = verdicts(
        (True, True, -GIB, []),
        (True, True, -GIB, []),
        (True, True, -GIB, []),
        (False, True, 3 * GIB, []),
        (True, False, -2 * GIB, []),
        (True, False, -4 * GIB, guess),
        (False, False, GIB, []),
        (None, False, 0, []),
    ).fits
    assert (table.fits_said_fits, table.fits_said_not, table.failed_said_fits, table.failed_said_not) == (
        3,
        1,
        2,
        1,
    )
    assert (table.unsafe_logged, table.unsafe_inferred, table.no_verdict) == (1, 1, 1)
    assert table.balanced_accuracy == pytest.approx((3 / 4 + 1 / 3) / 2)
    assert table.unsafe_gib == pytest.approx(3.0)
    assert table.refused_gib == pytest.approx(3.0)


def test_balanced_accuracy_needs_both_sides() -> None:
    assert verdicts((True, True, 0, [])).fits.balanced_accuracy is None


def test_a_fits_row_has_no_error() -> None:
    row = verdicts((None, True, 0, [])).rows[0]
    assert (row.predicted, row.observed, row.error) == (None, True, None)


# --- the JSON object


def test_the_json_object_has_the_keys_that_were_agreed() -> None:
    result = score(records({}, {"observed": {"kv_bytes": 1}}), saying(peak_allocated_bytes=100))
    document = as_json(result)
    assert list(document) == ["rows", "unsupported", "summary"]
    keys = ["id", "family", "group", "metric", "predicted", "observed", "error", "inside_band"]
    assert list(document["rows"][0]) == keys
    assert list(document["unsupported"][0]) == ["id", "reason"]
    assert json.loads(json.dumps(document)) == document


# --- predictions from a plan


def test_figures_come_from_the_ledger() -> None:
    scenario, _ = parse_scenario(SCENARIO)
    assert scenario is not None
    found = prediction_for(scenario, "any", TABLES).figures
    ledger = plan(scenario, TABLES).worst.ledger
    assert found["peak_allocated_bytes"] == ledger.peak(Layer.ALLOCATED)[1]
    assert found["peak_reserved_bytes"] == ledger.peak(Layer.RESERVED)[1]
    assert found["device_used_bytes"] == found["peak_unknown_bytes"] == ledger.peak(Layer.DEVICE)[1]
    assert found["resting_allocated_bytes"] == ledger.phase_bytes(Phase.REST, Layer.ALLOCATED)
    assert found["parameters"] == found["trainable_parameters"] == plan(scenario, TABLES).model.params_total


def test_the_margin_is_left_out_when_scoring() -> None:
    """A job that needs 90 % of the card is tight with a margin of a fifth, and fits without."""
    scenario, _ = parse_scenario(SCENARIO)
    assert scenario is not None
    peak = plan(scenario, TABLES).worst.peak_bytes
    rows = [{"gpu": "h100-sxm-80gb", "count": 8, "memory_bytes": math.ceil(peak / 0.9)}]
    tight, _ = parse_scenario(SCENARIO | {"hardware": {"devices": rows, "margin_frac": 0.2}})
    assert tight is not None
    assert plan(tight, BANDED).verdict is Verdict.TIGHT
    assert prediction_for(tight, "any", BANDED).figures["fits"] is True


@pytest.mark.parametrize(("room_frac", "answer"), [(0.9, False), (0.99, False), (1.01, True), (1.2, True)])
def test_tight_counts_as_the_side_of_the_central_value(room_frac: float, answer: bool) -> None:
    def on_cards_of(memory_bytes: int) -> Scenario:
        rows = [{"gpu": "h100-sxm-80gb", "count": 8, "memory_bytes": memory_bytes}]
        asked, _ = parse_scenario(SCENARIO | {"hardware": {"devices": rows}})
        assert asked is not None
        return asked

    least_bytes = plan(on_cards_of(2**30), TABLES).worst.peak_bytes  # with no room for what is only cached
    asked = on_cards_of(math.ceil(least_bytes * room_frac))
    assert prediction_for(asked, "any", BANDED).figures["fits"] is answer


def test_ranks_of_a_pipeline() -> None:
    document = SCENARIO | {"parallel": {"pipeline": 4, "tensor": 2}}
    scenario, _ = parse_scenario(document)
    assert scenario is not None
    answer = plan(scenario, TABLES)
    stages = [
        answer.devices[i].stage
        for name in ("first", "middle", "last")
        for i in devices_of(answer, f"{name}_stage")
    ]
    assert stages == [0, 2, 3]
    assert [answer.devices[i].indices for i in devices_of(answer, "device5")] == [(4, 5)]
    assert devices_of(answer, "device8") == ()
    assert prediction_for(scenario, "device8", TABLES).reason == "no device8 in this job"
    assert devices_of(answer, "any") == devices_of(answer, "max") == (answer.fullest,)


def test_sum_adds_every_device() -> None:
    scenario, _ = parse_scenario(SCENARIO)
    assert scenario is not None
    one = prediction_for(scenario, "any", TABLES).figures["peak_allocated_bytes"]
    assert prediction_for(scenario, "sum", TABLES).figures["peak_allocated_bytes"] == 8 * (one or 0)


def test_a_card_of_unknown_size_gets_no_verdict() -> None:
    scenario, _ = parse_scenario(SCENARIO | {"hardware": {"devices": [{"gpu": "unknown", "count": 8}]}})
    assert scenario is not None
    assert fits(plan(scenario, TABLES)) is None
