"""The job on more and fewer workers."""

from typing import Any

import pytest

from hardware_db import load_tables
from planner.elastic import Elastic, elastic, numbers
from planner.estimate import plan
from planner.plan_types import Verdict
from planner.validation import parse_scenario


def question(cards: int = 8, **changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "task": "full",
        "model": {"id": "meta-llama/Llama-3.1-8B"},
        "hardware": {"devices": [{"gpu": "a100-sxm-80gb", "count": cards}]},
        "runtime": {"name": "torchtitan"},
        "training": {
            "micro_batch": 1,
            "gradient_accumulation": 4,
            "sequence_length": 4096,
            "checkpointing": "full",
        },
        "parallel": {"sharding": "fsdp"},
    } | changes


def found(document: dict[str, Any]) -> Elastic:
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return elastic(scenario, load_tables())


def test_each_number_of_workers_is_the_plan_of_that_job() -> None:
    for row in found(question(elastic={"min_data": 2, "max_data": 6})).rows:
        scenario, _ = parse_scenario(question(row.cards))
        assert scenario is not None
        alone = plan(scenario, load_tables())
        assert row.plan is not None
        assert (row.data, row.cards) == (row.plan.resolved.hardware.num_devices, row.data)
        assert row.plan.worst.peak_bytes == alone.worst.peak_bytes


def test_what_is_divided_grows_as_workers_leave_until_it_stops_fitting() -> None:
    job = found(question())
    peaks = [row.plan.worst.peak_bytes for row in job.rows if row.plan is not None]
    assert peaks == sorted(peaks, reverse=True)
    assert job.asked == 8
    assert job.fewest is not None
    assert job.fewest > job.rows[0].data
    for row in job.rows:
        assert row.plan is not None
        assert (row.plan.verdict is Verdict.FITS) == (row.data >= job.fewest)


def test_copies_need_the_same_whatever_their_number() -> None:
    rows = found(question(parallel={}, model={"id": "Qwen/Qwen2.5-0.5B"})).rows
    peaks = {row.plan.worst.peak_bytes for row in rows if row.plan is not None and row.data > 1}
    assert len(peaks) == 1


@pytest.mark.parametrize(("data", "accumulation"), [(1, 32), (3, 11), (8, 4), (16, 2)])
def test_accumulation_keeps_at_least_the_batch(data: int, accumulation: int) -> None:
    row = next(
        row for row in found(question(elastic={"min_data": 1, "max_data": 16})).rows if row.data >= data
    )
    if row.data == data:
        assert row.accumulation == accumulation
    assert row.accumulation * row.data >= 4 * 8 > (row.accumulation - 1) * row.data


def test_a_worker_is_a_whole_copy() -> None:
    job = found(question(parallel={"tensor": 2, "pipeline": 2}))
    assert job.asked == 2
    assert [(row.data, row.cards) for row in job.rows] == [(1, 4), (2, 8), (3, 12), (4, 16)]


def test_a_number_that_cannot_be_divided_says_why() -> None:
    parallel = {"sharding": "fsdp", "expert": 4}
    document = question(parallel=parallel, model={"id": "Qwen/Qwen3-30B-A3B"})
    rows = {row.data: row for row in found(document).rows}
    assert rows[4].plan is not None
    assert rows[3].plan is None
    assert rows[3].issue is not None
    assert rows[3].issue.code == "expert_outside_data"


@pytest.mark.parametrize(
    ("low", "high", "asked"), [(1, 1, 1), (1, 12, 5), (1, 1024, 8), (7, 65_536, 300), (3, 40, 99)]
)
def test_numbers_reach_from_end_to_end(low: int, high: int, asked: int) -> None:
    steps = numbers(low, high, asked)
    assert (steps[0], steps[-1]) == (low, high)
    assert list(steps) == sorted(set(steps))
    assert len(steps) <= 14
    assert (asked in steps) == (low <= asked <= high)


def test_what_has_no_workers_says_so() -> None:
    mixed = [{"gpu": "a100-sxm-80gb"}, {"gpu": "rtx-3090-24gb"}]
    assert found(question(hardware={"devices": mixed})).refusal == "unequal_cards"
    assert (
        found(question(task="serve", runtime={"name": "vllm"}, parallel={}, training={})).refusal == "serves"
    )
    assert found(question(parallel={"data_parallel": "dp"})).refusal == "one_process"
    stages = [{"devices": [0, 1, 2, 3], "layers": 16}, {"devices": [4, 5, 6, 7], "layers": 16}]
    assert found(question(parallel={"stages": stages})).refusal == "stages_by_hand"
