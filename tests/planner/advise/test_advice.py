"""The advice: every change is planned, ranked by its time for what is missing, pairs where one is not enough."""

from dataclasses import replace
from typing import Any

import pytest

from hardware_db import load_tables
from planner.advise import Change, Outcome, advise, first_that_fits
from planner.advise.advice import ORDER, missing_bytes, seconds_per_token
from planner.advise.change import change, together
from planner.advise.division import other_divisions
from planner.advise.serving import serving_changes
from planner.cli.advice import WHAT, advice_lines, advice_on, what
from planner.document import Document
from planner.estimate import plan
from planner.issues import ScenarioError
from planner.plan_types import Plan, Verdict
from planner.validation import parse_scenario

TABLES = load_tables()


def question(gpu: str = "rtx-3090-24gb", count: int = 4, **changes: Any) -> Document:
    return {
        "version": 1,
        "task": "full",
        "model": {"id": "meta-llama/Llama-3.2-3B"},
        "hardware": {"devices": [{"gpu": gpu, "count": count}]},
        "runtime": {"name": "hf_trainer"},
        "training": {"micro_batch": 4, "gradient_accumulation": 1, "sequence_length": 2048},
    } | changes


def planned(document: Document) -> Plan | None:
    scenario, _ = parse_scenario(document)
    if scenario is None:
        return None
    try:
        return plan(scenario, TABLES)
    except ScenarioError:
        return None


def advice(document: Document, most: int = 40) -> tuple[Plan, tuple[Outcome, ...]]:
    answer = planned(document)
    assert answer is not None
    return answer, advise(document, answer, planned, TABLES, most)


def is_same(outcome: Outcome) -> bool:
    return not outcome.change.other_job and not outcome.change.other_hardware


SERVED = question(
    "a100-sxm-80gb",
    1,
    task="serve",
    model={"id": "meta-llama/Llama-3.1-70B"},
    runtime={"name": "vllm"},
    training={},
    serving={"max_model_len": 8192},
    workload={"concurrency": 8},
)
QUESTIONS = [
    question(),
    question("a100-sxm-80gb", 1, model={"id": "meta-llama/Llama-3.1-8B"}),
    question("h100-sxm-80gb", 8, parallel={"sharding": "zero3", "offload": {"optimizer": "cpu"}}),
    SERVED,
]


@pytest.mark.parametrize("document", QUESTIONS)
def test_every_outcome_is_a_plan_of_its_document(document: Document) -> None:
    before, found = advice(document)
    assert found
    for outcome in found:
        assert planned(outcome.change.document) == outcome.plan
        assert outcome.delta_bytes == outcome.plan.worst.peak_bytes - before.worst.peak_bytes
        assert (outcome.gained_bytes < 0) == outcome.change.grows
        assert outcome.change.budget or outcome.gained_bytes == -outcome.delta_bytes
        seconds, base = seconds_per_token(outcome.plan, TABLES), seconds_per_token(before, TABLES)
        if outcome.time_frac is not None and seconds is not None and base is not None:
            assert outcome.time_frac == pytest.approx(seconds / base - 1)


@pytest.mark.parametrize("document", [QUESTIONS[0], QUESTIONS[1], SERVED])
def test_what_does_not_fit_is_ranked_by_time_for_what_is_missing(document: Document) -> None:
    before, found = advice(document)
    assert before.verdict is not Verdict.FITS
    missing = missing_bytes(before)
    places = []
    for outcome in found:
        assert outcome.time_frac is not None
        assert outcome.price_frac_per_gib == pytest.approx(
            outcome.time_frac / (min(outcome.gained_bytes, missing) / 2**30)
        )
        short = (outcome.plan.worst.headroom_bytes or 0) < 0
        places.append((ORDER[outcome.plan.verdict], short, not is_same(outcome), outcome.price_frac_per_gib))
    assert places == sorted(places)


def test_enough_is_what_makes_it_fit() -> None:
    """`missing_bytes` is the verdict's own rule: the band's high end within the margin."""
    for document in QUESTIONS[:2]:
        before, found = advice(document)
        for outcome in found:
            worst = outcome.plan.worst
            if worst.gpu_id == before.worst.gpu_id and not outcome.change.other_job:
                assert (-outcome.delta_bytes >= missing_bytes(before)) == (
                    outcome.plan.verdict is Verdict.FITS
                ), outcome.change.name


def test_two_changes_together_where_none_is_enough() -> None:
    document = question("rtx-4090-24gb", 1, model={"id": "Qwen/Qwen2.5-1.5B"})
    document["training"] |= {"micro_batch": 4, "sequence_length": 4096}
    before, found = advice(document)
    assert before.verdict is Verdict.DOES_NOT_FIT
    singles = [o for o in found if not o.change.parts]
    pairs = [o for o in found if o.change.parts]
    assert not [o for o in singles if is_same(o) and o.plan.verdict is Verdict.FITS]
    assert pairs
    alone = {o.change.name: o for o in singles}
    for outcome in pairs:
        assert is_same(outcome)
        for part in outcome.change.parts:
            assert ORDER[outcome.plan.verdict] < ORDER[alone[part.name].plan.verdict]
            for path, value in part.values.items():
                assert outcome.change.values[path] == value
    best = first_that_fits(found)
    assert best is not None
    assert best is found[0]


def test_no_pair_where_one_change_is_enough() -> None:
    document = question("a100-sxm-80gb", 1)
    _, found = advice(document)
    if any(o.plan.verdict is Verdict.FITS and is_same(o) for o in found):
        assert not [o for o in found if o.change.parts]


def test_the_usual_workflow_is_there_with_its_price() -> None:
    """SEEDS D4: halve the batch and accumulate, checkpoint, offload; checkpointing costs time, so does offload."""
    document = question("rtx-3090-24gb", 4, model={"id": "meta-llama/Llama-3.1-8B"})
    document["parallel"] = {"sharding": "zero3"}
    _, found = advice(document)
    times = {o.change.name: o.time_frac for o in found}
    assert {"half_micro_batch", "checkpointing", "offload"} <= times.keys()
    assert all(times[name] is not None for name in times)
    assert (times["checkpointing"] or 0) > 0.1
    assert (times["offload"] or 0) > 0
    halved = next(o for o in found if o.change.name == "half_micro_batch")
    assert halved.change.values == {"training.micro_batch": 2, "training.gradient_accumulation": 2}


def test_a_plan_with_room_is_told_what_it_pays_for_without_need() -> None:
    document = question("h100-sxm-80gb", 8, parallel={"sharding": "zero3", "offload": {"optimizer": "cpu"}})
    document["training"] |= {"checkpointing": "full"}
    before, found = advice(document)
    assert before.verdict is Verdict.FITS
    grown = [o for o in found if o.change.grows]
    names = {o.change.name for o in grown}
    assert {"no_checkpointing", "no_offload", "half_cards"} <= names
    assert found[: len(grown)] == tuple(grown)
    assert {o.plan.verdict for o in grown} == {Verdict.FITS}
    times = [o.time_frac for o in grown]
    assert times == sorted(times, key=lambda time: time or 0.0)
    halved = next(o for o in grown if o.change.name == "half_cards")
    assert halved.time_frac is not None
    assert halved.card_time_frac == pytest.approx((1 + halved.time_frac) / 2 - 1)


def test_a_server_with_room_is_told_of_fewer_cards() -> None:
    document = question(
        "h100-sxm-80gb",
        4,
        task="serve",
        model={"id": "meta-llama/Llama-3.1-8B"},
        runtime={"name": "vllm"},
        training={},
        serving={"max_model_len": 8192},
        workload={"concurrency": 4},
        parallel={"tensor": 4},
    )
    before, found = advice(document)
    assert before.verdict is Verdict.FITS
    halved = next(o for o in found if o.change.name == "half_cards")
    assert halved.change.values == {"hardware.devices.0.count": 2, "parallel.tensor": 2}
    assert halved.time_frac is not None
    assert halved.card_time_frac is not None
    assert halved.card_time_frac < halved.time_frac


def served(model: str, gpu: str, runtime: str = "vllm", **serving: Any) -> Document:
    return question(
        gpu, 1, task="serve", model={"id": model}, runtime={"name": runtime}, training={}, serving=serving
    )


def test_what_could_use_the_rest_still_fits() -> None:
    """Half the cards of a model that needs more than half of them is no use of what is left."""
    document = served("deepseek-ai/DeepSeek-V3", "h200-sxm-141gb", max_model_len=8192)
    document["hardware"] = {"devices": [{"gpu": "h200-sxm-141gb", "count": 8}], "devices_per_node": 8}
    document["parallel"] = {"tensor": 8}
    before, found = advice(document)
    assert before.verdict is Verdict.FITS
    assert "half_cards" not in {o.change.name for o in found}


def test_an_engine_is_tuned_before_anything_else_is_given_up() -> None:
    """gpt-oss-120b on one H100 at its whole context: more of the card and smaller steps, within the engine's limits."""
    document = served("openai/gpt-oss-120b", "h100-sxm-80gb", max_model_len=131072)
    before, found = advice(document)
    assert (before.worst.headroom_bytes or 0) < 0
    by_name = {o.change.name: o for o in found}
    claimed, steps = by_name["more_of_the_card"], by_name["fewer_step_tokens"]
    assert claimed.change.values == {"serving.memory_utilization": 0.95}
    assert claimed.budget_bytes > 0
    assert (claimed.plan.worst.headroom_bytes or 0) >= 0
    assert steps.change.values == {"serving.batched_tokens": 1024}
    assert steps.delta_bytes < 0


@pytest.mark.parametrize(
    ("runtime", "serving"),
    [
        ("vllm", {"memory_utilization": 0.95, "batched_tokens": 1024}),
        ("vllm", {"memory_utilization": 0.97, "batched_tokens": 2048, "max_sequences": 2048}),
        ("sglang", {"memory_utilization": 0.94, "batched_tokens": 2048}),
        ("tgi", {}),
    ],
)
def test_an_engine_at_its_limits_is_not_told_to_go_on(runtime: str, serving: dict[str, Any]) -> None:
    document = served("openai/gpt-oss-120b", "h100-sxm-80gb", runtime, max_model_len=131072, **serving)
    answer = planned(document)
    assert answer is not None
    names = {one.name for one in serving_changes(document, answer)}
    assert not names & {"more_of_the_card", "fewer_step_tokens"}


def test_the_same_cards_are_divided_otherwise() -> None:
    """GPT-3 on 64 A100: a pipeline of 8 in place of two copies, with twice the accumulation for the same batch."""
    document = question(
        "a100-sxm-80gb",
        64,
        task="pretrain",
        model={"id": "openai/gpt3-175b"},
        runtime={"name": "megatron_lm"},
    )
    document["hardware"]["devices_per_node"] = 8
    document["training"] = {"micro_batch": 1, "gradient_accumulation": 32, "sequence_length": 2048}
    document["training"]["checkpointing"] = "full"
    document["parallel"] = {"tensor": 8, "pipeline": 4, "data": 2, "sequence": True}
    before, found = advice(document)
    assert before.verdict is Verdict.DOES_NOT_FIT
    divided = next(o for o in found if o.change.name == "other_division")
    parallel = divided.plan.resolved.parallel
    assert (parallel.tensor, parallel.pipeline, parallel.data) == (8, 8, 1)
    assert divided.plan.resolved.training.gradient_accumulation == 64
    assert divided.plan.resolved.hardware == before.resolved.hardware
    assert divided.plan.verdict is Verdict.FITS


def test_a_framework_without_them_is_not_told_to_split_tensors_or_layers() -> None:
    document = question(count=4)
    answer = planned(document)
    assert answer is not None
    assert not list(other_divisions(document, answer))


def test_without_rates_the_order_is_that_of_the_list() -> None:
    bare = replace(
        TABLES, constants={k: v for k, v in TABLES.constants.items() if not k.startswith("speed_")}
    )
    document = QUESTIONS[0]
    before = planned(document)
    assert before is not None
    found = advise(document, before, planned, bare)
    assert found
    assert {o.time_frac for o in found} == {None}


def test_a_pair_sets_every_field_once() -> None:
    document = question()
    first = change(document, "checkpointing", {"training.checkpointing": "full"})
    second = change(document, "adam_8bit", {"training.optimizer.name": "adamw_8bit"})
    both = together(document, first, second)
    assert both is not None
    assert both.document["training"]["checkpointing"] == "full"
    assert both.document["training"]["optimizer"] == {"name": "adamw_8bit"}
    assert together(document, first, first) is None
    block = change(document, "lora", {"training.optimizer": {"name": "sgd"}})
    assert together(document, second, block) is None


def test_every_change_has_words_on_the_command_line() -> None:
    seen: set[str] = set()

    def names(one: Change) -> set[str]:
        return set().union(*map(names, one.parts)) if one.parts else {one.name}

    for document in QUESTIONS:
        answer, found = advice(document)
        for outcome in found:
            assert what(outcome.change)
            seen |= names(outcome.change)
        lines = list(advice_lines(answer, advice_on(answer, TABLES)))
        assert len(lines) > 3
    assert len(seen & WHAT.keys()) > 12
