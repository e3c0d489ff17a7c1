"""Layouts over unequal cards, each planned as a whole."""

from typing import Any

import pytest

from hardware_db import load_tables
from planner.issues import Severity
from planner.mixed.layouts import Layouts, Row, layouts
from planner.mixed.step_time import stage_seconds
from planner.plan_types import Verdict
from planner.throughput.training_speed import training_speed
from planner.validation import parse_scenario

A100_FIRST: list[dict[str, Any]] = [
    {"gpu": "a100-sxm-80gb", "count": 2},
    {"gpu": "rtx-3090-24gb", "count": 4},
]
ARTICLE: list[dict[str, Any]] = [
    {"devices": [0], "layers": 14, "tensor": 2},
    {"devices": [1, 2], "layers": 13, "tensor": 2},
    {"devices": [3, 4, 5], "layers": 13, "tensor": 2},
]


def question(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "task": "full",
        "model": {"id": "meta-llama/Llama-2-13b-hf"},
        "hardware": {"devices": A100_FIRST},
        "runtime": {"name": "generic"},
        "training": {
            "micro_batch": 1,
            "gradient_accumulation": 16,
            "sequence_length": 2048,
            "attention": "flash",
            "checkpointing": "full",
            "optimizer": {"name": "adamw_8bit"},
            "precision": {"parameters": "bf16", "compute": "bf16"},
        },
    } | changes


def found(document: dict[str, Any]) -> Layouts:
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return layouts(scenario, load_tables())


def rows(document: dict[str, Any]) -> dict[str, Row]:
    return {row.name: row for row in found(document).rows}


@pytest.fixture(scope="module")
def article() -> dict[str, Row]:
    return rows(question(parallel={"stages": ARTICLE}))


def test_the_articles_layout_is_refused_with_the_field_named(article: dict[str, Row]) -> None:
    asked = article["asked"]
    assert asked.plan is None
    wrong = {(issue.code, issue.field) for issue in asked.issues if issue.severity is Severity.ERROR}
    assert wrong == {
        ("stage_tensor_splits_devices", "parallel.stages.0.tensor"),
        ("stage_tensor_splits_devices", "parallel.stages.2.tensor"),
    }
    assert ("stage_tensor_mixes_cards", "parallel.stages.1.devices") in {
        (issue.code, issue.field) for issue in asked.issues
    }


def test_a_layout_that_fits_stands_beside_it(article: dict[str, Row]) -> None:
    fastest = article["fastest"]
    assert fastest.plan is not None
    assert fastest.plan.verdict is Verdict.FITS
    assert sum(device.layers[1] - device.layers[0] for device in fastest.plan.devices) == 40
    for other in article.values():
        if other.plan is not None and other.plan.verdict is Verdict.FITS:
            assert other.tokens_per_s is not None
            assert fastest.tokens_per_s is not None
            assert fastest.tokens_per_s >= 0.99 * other.tokens_per_s


def test_the_best_layout_fits_and_none_that_fits_is_faster() -> None:
    document = question(model={"id": "openai-community/gpt2"})
    document["training"] |= {"gradient_accumulation": 1, "sequence_length": 1024}
    looked_at = found(document)
    best = looked_at.best
    assert best is not None
    assert best.plan is not None
    assert best.plan.verdict is Verdict.FITS
    for row in looked_at.rows:
        if row.plan is not None and row.plan.verdict is Verdict.FITS:
            assert (best.tokens_per_s or 0) >= (row.tokens_per_s or 0)


def test_a_group_of_tensor_parallel_cards_is_of_one_kind(article: dict[str, Row]) -> None:
    plan = article["fastest"].plan
    assert plan is not None
    assert not [issue for issue in plan.issues if issue.code == "stage_tensor_mixes_cards"]
    for stage in plan.resolved.parallel.stages or ():
        assert len({index < 2 for index in stage.devices}) == 1


def test_copies_are_bound_by_the_smallest_card(article: dict[str, Row]) -> None:
    plan = article["copies"].plan
    assert plan is not None
    assert plan.worst.gpu_id == "rtx-3090-24gb"
    assert len({device.peak_bytes for device in plan.devices}) == 1


def test_early_stages_hold_more_micro_batches_so_the_large_card_goes_first() -> None:
    """SEEDS G23: 1F1B keeps p - stage micro-batches, and that is what a small card in front has no room for."""
    document = question(
        hardware={"devices": [{"gpu": "rtx-3090-24gb"}, {"gpu": "a100-sxm-80gb"}]},
        model={"id": "meta-llama/Llama-2-7b-hf"},
    )
    document["training"] |= {"checkpointing": "none", "micro_batch": 2}

    def headroom(*order: tuple[int, int]) -> dict[str, int]:
        division = {"stages": [{"devices": [card], "layers": layers} for card, layers in order]}
        plan = rows(document | {"parallel": division})["asked"].plan
        assert plan is not None
        return {device.gpu_id: device.headroom_bytes or 0 for device in plan.devices}

    behind, in_front = headroom((1, 22), (0, 10)), headroom((0, 10), (1, 22))
    assert in_front["rtx-3090-24gb"] < 0 < behind["rtx-3090-24gb"]
    assert min(behind["a100-sxm-80gb"], in_front["a100-sxm-80gb"]) > 0


def test_cards_without_use_are_left_out() -> None:
    """One micro-batch a step and a model that one card holds: a second stage would only wait."""
    document = question(
        model={"id": "openai-community/gpt2"},
        hardware={"devices": [{"gpu": "h100-sxm-80gb"}, {"gpu": "rtx-3060-12gb"}]},
    )
    document["training"] |= {"gradient_accumulation": 1, "sequence_length": 1024}
    fastest = rows(document)["fastest"]
    assert fastest.left_out == (1,)
    assert fastest.document["hardware"]["devices"] == [{"gpu": "h100-sxm-80gb", "count": 1}]


def test_what_cannot_be_searched_says_why() -> None:
    equal = question(hardware={"devices": [{"gpu": "rtx-3090-24gb", "count": 4}]})
    assert found(equal).refusal == "one_kind"
    served = {
        "version": 1,
        "task": "serve",
        "model": {"id": "meta-llama/Llama-2-13b-hf"},
        "hardware": {"devices": A100_FIRST},
        "runtime": {"name": "vllm"},
    }
    assert found(served).refusal == "serves"
    small = question(hardware={"devices": [{"gpu": "rtx-3060-12gb"}, {"gpu": "rtx-3090-24gb"}]})
    assert found(small).refusal == "nothing_holds_it"
    many = question(
        hardware={
            "devices": [{"gpu": "a100-sxm-80gb", "count": 1}, {"gpu": "rtx-3090-24gb", "count": 997}],
        },
        parallel={"data": 1, "stages": [{"devices": list(range(998)), "layers": 40}]},
    )
    assert found(many).refusal == "too_many_cards"


def test_stage_times_follow_layers_and_cards(article: dict[str, Row]) -> None:
    plan = article["equal_stages"].plan
    assert plan is not None
    times = stage_seconds(plan, load_tables())
    assert len(times) == 6
    assert times[0] == pytest.approx(times[1])
    assert times[2] > 1.5 * times[0]
    assert times[5] > times[4] * 0.9


def test_the_plan_and_its_layout_say_the_same_speed() -> None:
    """Unlike cards: a step is every micro-batch on the slowest stage and one on each other, by their own rooflines."""
    document = question(
        model={"id": "meta-llama/Llama-3.1-8B"},
        hardware={
            "devices": [{"gpu": "a100-pcie-40gb", "count": 2}, {"gpu": "rtx-4090-24gb", "count": 4}],
        },
        parallel={"pipeline": 6},
    )
    asked = rows(document)["asked"]
    assert asked.plan is not None
    speed = training_speed(asked.plan, load_tables())
    assert speed.step_time_s is not None
    assert asked.tokens_per_s == speed.tokens_per_s
    stages = stage_seconds(asked.plan, load_tables())
    once = sum(
        part.time_s
        for part in speed.parts
        if part.name in ("data_parallel", "optimizer_step", "host_transfers")
    )
    assert speed.step_time_s == pytest.approx(15 * max(stages) + sum(stages) + once, rel=0.01)
