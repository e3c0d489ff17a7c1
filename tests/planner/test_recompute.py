"""The curve of bytes against recomputation (SEEDS B2, B20)."""

from __future__ import annotations

import pytest

from hardware_db import load_tables
from planner.claims.serving import served
from planner.claims.training import full_training
from planner.claims.types import planned
from planner.recompute import SHARES, Point, curve

TABLES = load_tables()
JOB = {**full_training(micro_batch=4), "runtime": {"name": "torchtitan"}}


@pytest.fixture(scope="module")
def points() -> tuple[Point, ...]:
    return curve(planned(JOB, TABLES), TABLES)


def test_b20_less_kept_is_less_memory_and_more_time(points: tuple[Point, ...]) -> None:
    budget = [point for point in points if point.way == "compiler"]
    assert [point.kept_frac for point in budget] == list(SHARES)
    sizes = [point.activation_bytes for point in budget]
    times = [point.step_s or 0 for point in budget]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0] / 3
    assert times == sorted(times)
    assert 1.1 < times[-1] / times[0] < 1.5


def test_stretches_of_layers_keep_fewer_inputs_and_take_the_time_of_one_more_forward_pass(
    points: tuple[Point, ...],
) -> None:
    whole, *layers = [point for point in points if point.way == "layers"]
    assert [whole.every, *(point.every for point in layers)] == [0, 1, 2, 4, 8]
    for point in layers:
        assert point.activation_bytes < whole.activation_bytes / 3
        assert 1.1 < (point.step_s or 0) / (whole.step_s or 1) < 1.5
    sizes = [point.activation_bytes for point in layers]
    assert sizes[1] < sizes[0]
    assert sizes[3] > sizes[1]


def test_a_point_is_the_plan_of_its_question(points: tuple[Point, ...]) -> None:
    full = planned({**JOB, "training": {**JOB["training"], "checkpointing": "full"}}, TABLES)
    (point,) = (one for one in points if one.every == 1)
    assert (point.peak_bytes, point.verdict) == (full.worst.peak_bytes, full.verdict)


def test_a_server_has_none() -> None:
    with pytest.raises(ValueError, match="task: serve"):
        curve(planned(served("meta-llama/Llama-2-7b-hf", "a100-sxm-80gb"), TABLES), TABLES)
