"""The articles' checklist, ticked from the plan and from a run."""

from __future__ import annotations

import json

import pytest

import run
from hardware_db import load_tables
from planner.claims.serving import served
from planner.claims.training import full_training
from planner.claims.types import planned
from planner.diagnose.checklist import ITEMS, Item, checklist
from planner.plan_types import Plan

TABLES = load_tables()
EXAMPLES = sorted((run.ROOT / "examples").glob("*.json"))


def ticked(plan: Plan, measured: dict[str, bool | None] | None = None) -> dict[str, Item]:
    return {item.code: item for item in checklist(plan, TABLES, measured)}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.stem))
def test_d8_every_item_is_there_for_every_example(path: object) -> None:
    made = planned(json.loads(path.read_text(encoding="utf-8")), TABLES)  # type: ignore[attr-defined]
    found = ticked(made)
    expected = set(ITEMS) - {"offload"}
    expected -= (
        {"bandwidth"} if made.resolved.is_training else {"cudnn_benchmark", "threads", "checkpointing"}
    )
    assert found.keys() - {"offload"} == expected
    assert {item.measured for item in found.values()} == {"unknown"}


def test_activations_without_checkpointing_ask_for_it() -> None:
    long = full_training(sequence_length=16384, micro_batch=2)
    assert ticked(planned(long, TABLES))["checkpointing"].planned == "attention"
    full = planned({**long, "training": {**long["training"], "checkpointing": "full"}}, TABLES)
    assert ticked(full)["checkpointing"].planned == "good"


def test_fp32_is_crossed_and_bf16_ticked() -> None:
    fp32 = {"parameters": "fp32", "compute": "fp32", "master": "none"}
    assert ticked(planned(full_training(precision=fp32), TABLES))["precision"].planned == "attention"
    assert ticked(planned(full_training(), TABLES))["precision"].planned == "good"


def test_a_network_that_is_waited_for_is_no_use_of_the_card() -> None:
    job = full_training(cards=16, gpu="h100-sxm-80gb")
    for gbit, state in ((25, "attention"), (3200, "good")):
        hardware = {**job["hardware"], "devices_per_node": 8, "links": {"inter_node_gbit": gbit}}
        asked = {
            **job,
            "hardware": hardware,
            "runtime": {"name": "deepspeed"},
            "parallel": {"sharding": "zero2"},
        }
        asked["training"] = {**job["training"], "micro_batch": 4, "gradient_accumulation": 16}
        assert ticked(planned(asked, TABLES))["utilisation"].planned == state


def test_a_host_that_is_too_small_swaps() -> None:
    job = full_training(cards=8) | {"runtime": {"name": "deepspeed"}}
    offload = {"sharding": "zero3", "offload": {"optimizer": "cpu"}}
    for gib, state in ((16, "attention"), (1024, "good")):
        asked = {**job, "parallel": offload, "hardware": {**job["hardware"], "host_memory_gib": gib}}
        found = ticked(planned(asked, TABLES))
        assert found["offload"].planned == found["swapping"].planned == state


def test_a_lone_request_reads_weights_most_of_its_step() -> None:
    job = served("meta-llama/Llama-2-7b-hf", "a100-sxm-80gb")
    work = {"prompt_tokens": 512, "output_tokens": 256, "concurrency": 1}
    item = ticked(planned({**job, "workload": work}, TABLES))["bandwidth"]
    assert item.planned == "good"
    share = dict(item.params)["frac"]
    assert isinstance(share, float)
    assert share > 0.6


def test_a_run_ticks_its_own_column() -> None:
    found = ticked(planned(full_training(), TABLES), {"versions": True, "swapping": False, "threads": None})
    assert [found[name].measured for name in ("versions", "swapping", "threads", "precision")] == [
        "good",
        "attention",
        "unknown",
        "unknown",
    ]
