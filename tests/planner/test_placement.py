"""Layers to stages and micro-batches in flight."""

from typing import Any

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.placement import chunk_sizes, micro_batches_in_flight, stage_layers
from planner.scenario import Parallel
from planner.validation import parse_scenario
from tests.planner.training import cases

TABLES = load_tables()


def in_flight(accumulation: int, layers: int = 32, **parallel: Any) -> list[float]:
    block = Parallel(**parallel)
    return [micro_batches_in_flight(stage, block, accumulation, layers) for stage in range(block.pipeline)]


def test_schedules() -> None:
    assert in_flight(8, pipeline=4) == [4, 3, 2, 1]
    assert in_flight(2, pipeline=4) == [2, 2, 2, 1]
    assert in_flight(8, pipeline=4, pipeline_schedule="gpipe") == [8, 8, 8, 8]
    assert in_flight(8, pipeline=4, pipeline_schedule="naive") == [1, 1, 1, 1]
    assert in_flight(8) == [1]


@pytest.mark.parametrize("chunks", [2, 4, 8])
def test_interleaving_keeps_warm_up_passes_and_one_more(chunks: int) -> None:
    """Narayanan et al. 2021: the first stage keeps 1 + (p - 1)/(p*v) times what 1F1B does."""
    found = in_flight(16, pipeline=4, virtual_stages=chunks)
    assert found[0] == pytest.approx(4 * (1 + 3 / (4 * chunks)))
    for stage, held in enumerate(found):
        assert held * chunks == pytest.approx((3 - stage) * 2 + (chunks - 1) * 4 + 1)


def test_an_empty_last_chunk_leaves_its_passes_without_activations() -> None:
    """The chunk that holds layers keeps all p micro-batches, the one with the loss alone none."""
    parallel: dict[str, Any] = {
        "pipeline": 4,
        "virtual_stages": 2,
        "pipeline_layers": (0, 1, 1, 1, 1, 1, 1, 0),
    }
    assert in_flight(8, layers=6, **parallel)[3] == 4
    assert chunk_sizes(6, Parallel(**parallel)) == (0, 1, 1, 1, 1, 1, 1, 0)
    assert stage_layers(6, Parallel(**parallel)) == (1, 2, 2, 1)


def test_a_remainder_goes_to_the_first_stages() -> None:
    assert stage_layers(10, Parallel(pipeline=4)) == (3, 3, 2, 2)
    assert stage_layers(10, Parallel(pipeline=4, pipeline_layers=(1, 2, 3, 4))) == (1, 2, 3, 4)


def test_every_layer_is_placed_once() -> None:
    _, model, groups = cases.shares(
        cases.LLAMA_8B,
        devices=8,
        parallel={"pipeline": 4, "virtual_stages": 2, "pipeline_schedule": "interleaved"},
    )
    assert sum(len(group.layers) for group in groups) == model.num_layers
    assert [group.holds_embedding for group in groups] == [True, False, False, False]
    assert [group.holds_head for group in groups] == [False, False, False, True]


def test_cards_of_one_row_are_one_group_and_equal_rows_too() -> None:
    """However many there are; the groups keep the order of the cards."""
    rows = [{"gpu": "h100-sxm-80gb", "count": 2}, {"gpu": "a100-sxm-80gb", "count": 1}]
    for devices, groups in (
        (rows[:1], [(0, 1)]),
        (rows, [(0, 1), (2,)]),
        ([*rows, rows[0]], [(0, 1, 3, 4), (2,)]),
    ):
        scenario, issues = parse_scenario(
            {
                "version": 1,
                "task": "full",
                "model": {"id": "meta-llama/Llama-3.1-8B"},
                "hardware": {"devices": devices},
                "runtime": {"name": "hf_trainer"},
            }
        )
        assert scenario is not None, issues
        assert [device.indices for device in plan(scenario, TABLES).devices] == groups
