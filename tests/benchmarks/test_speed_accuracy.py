"""The speed score: stored constants against the published runs, and cross-validation."""

import json

import numpy as np
import pytest

from benchmarks import speed_baselines as simple
from benchmarks import speed_publish
from benchmarks.records import load
from benchmarks.simplex import minimise
from benchmarks.speed_accuracy import absolute, by_family, evaluate, lines_of
from benchmarks.speed_fit import FACTOR_ROWS, ServingData, TrainingData, names_of
from benchmarks.speed_rows import serving_rows, training_rows
from hardware_db import DATA, load_tables
from planner.estimate import plan
from planner.throughput.serving_speed import serving_speed
from planner.throughput.serving_time import serving_rates
from planner.throughput.training_speed import training_speed
from planner.throughput.training_time import runtime_factor, training_rates

TABLES = load_tables()
RECORDS = load(("speed.jsonl",))
TRAINED, LEFT_TRAINING = training_rows(RECORDS, TABLES)
SERVED, LEFT_SERVING = serving_rows(RECORDS, TABLES)

TARGETS = {
    "training": (0.13, 0.35),
    "decode at batch 1, 16-bit": (0.12, None),
    "decode at batch 1, quantized": (0.20, None),
    "served batches": (0.20, None),
}


def test_nearly_every_run_has_an_answer() -> None:
    assert LEFT_TRAINING == {}
    assert LEFT_SERVING == {"no_power_limit": 2}
    assert len(TRAINED) == 515
    assert len(SERVED) == 771


def test_no_more_than_a_constant_for_ten_rows() -> None:
    training, serving = TrainingData(TRAINED), ServingData(SERVED)
    factors = [name for name in TABLES.constants if name.startswith("speed_train_factor_")]
    assert len(names_of(training.start)) + len(factors) <= len(TRAINED) / 10
    assert len(names_of(serving.start)) <= len(SERVED) / 10
    assert all((TABLES.constants[name].n_rows or 0) >= FACTOR_ROWS for name in factors)


def test_the_score_and_the_product_say_the_same() -> None:
    training, rates = TrainingData(TRAINED), training_rates(TABLES)
    errors = training.log_ratio(rates, np.ones(len(TRAINED), bool))
    for row, error in list(zip(TRAINED, errors, strict=True))[::40]:
        assert row.record.scenario is not None
        said = training_speed(plan(row.record.scenario, TABLES), TABLES).step_time_s
        factor = runtime_factor(row.record.scenario.runtime, TABLES)
        assert said == pytest.approx(row.step_s * np.exp(error) * factor)
    serving = ServingData(SERVED)
    errors = serving.log_ratio(serving_rates(TABLES), np.ones(len(SERVED), bool))
    for run, error in list(zip(SERVED, errors, strict=True))[::40]:
        assert run.record.scenario is not None
        found = serving_speed(plan(run.record.scenario, TABLES), TABLES)
        if run.metric == "tpot":
            assert found.tpot_s == pytest.approx(run.observed * np.exp(error))
        elif run.metric == "rate":
            assert found.output_tokens_per_s == pytest.approx(run.observed * np.exp(-error))


def test_stored_constants_reach_the_targets() -> None:
    training, serving = TrainingData(TRAINED), ServingData(SERVED)
    own = np.array(
        [
            np.log(runtime_factor(row.record.scenario.runtime, TABLES))
            for row in TRAINED
            if row.record.scenario
        ]
    )
    whole = np.ones(len(TRAINED), bool)
    metrics = np.array([row.metric for row in TRAINED])
    error = absolute(training.log_ratio(training_rates(TABLES), whole) + own, metrics)
    assert by_family(error, training.families, 0.5) <= 0.13
    assert by_family(error, training.families, 0.9) <= 0.35
    metrics = np.array([row.metric for row in SERVED])
    error = absolute(serving.log_ratio(serving_rates(TABLES), np.ones(len(SERVED), bool)), metrics)
    for kind, most in (("decode_full", 0.12), ("decode_packed", 0.20), ("served_batch", 0.20)):
        mask = serving.kinds == kind
        assert by_family(error[mask], serving.families[mask], 0.5) <= most, kind


@pytest.mark.long
def test_sources_left_out_reach_the_targets_and_beat_the_simple_rules() -> None:
    training = evaluate(TrainingData(TRAINED), TRAINED, simple.training_rule)
    serving = evaluate(ServingData(SERVED), SERVED, simple.serving_rule)
    lines = {line.group: line for line in lines_of(training) + lines_of(serving)}
    stored = json.loads((DATA / speed_publish.FILE).read_text(encoding="utf-8"))["lines"]
    for line in stored:
        assert lines[line["group"]].family_median == pytest.approx(line["family_median"], abs=1e-3)
    for group, (middle, most) in TARGETS.items():
        line = lines[group]
        assert line.family_median <= middle, group
        assert most is None or line.family_p90 <= most, group
        assert line.fold_median <= middle, group
        assert line.fold_median < line.simple_fold_median, group
        assert line.family_median < line.simple_family_median, group
    assert lines["offline"].fold_median * 2 <= lines["offline"].simple_fold_median
    assert lines["offline"].family_median * 2 <= lines["offline"].simple_family_median


def test_the_published_score_is_of_these_rows_and_constants() -> None:
    content = json.loads((DATA / speed_publish.FILE).read_text(encoding="utf-8"))
    assert content["input"] == speed_publish.measured()
    assert content["constants_sha256"] == speed_publish.digest(DATA / "constants_speed.toml")
    assert content["left_out"] == sum(LEFT_SERVING.values())
    for line in content["lines"]:
        if line["group"] in TARGETS:
            middle, most = TARGETS[line["group"]]
            assert line["family_median"] <= middle, line["group"]
            assert most is None or line["family_p90"] <= most, line["group"]
        assert line["inside_family_frac"] >= 0.85, line["group"]
    assert sum(row["rows"] for row in content["families"]) == len(TRAINED) + len(SERVED)


def test_the_simplex_finds_a_known_minimum() -> None:
    found = minimise(lambda at: float((at[0] - 3) ** 2 + 10 * (at[1] + 1) ** 2), np.zeros(2), 0.5, 500)
    assert found == pytest.approx([3, -1], abs=0.01)


def test_a_simple_rule_never_sees_its_own_group() -> None:
    ideal, seen = np.array([1.0, 1.0, 1.0]), np.array([2.0, 2.0, 4.0])
    keys = groups = np.array(["a", "b", "b"])
    found = simple.left_out(ideal, seen, keys, groups, np.array(["k", "k", "k"]))
    assert found[0] == pytest.approx(np.log(1 / np.median([0.5, 0.25]) / 2))
