"""Equal devices of llama.cpp are planned once, and come out as if each had been planned by itself."""

from typing import Any

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.placement import Share
from planner.plan_types import Plan
from planner.scenario import Scenario
from planner.serving import ledgers
from planner.validation import parse_scenario

TABLES = load_tables()
MIXED = [{"gpu": "rtx-4090-24gb", "count": 3}, {"gpu": "rtx-3090-24gb", "count": 2}]
CASES: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("Qwen/Qwen3-30B-A3B", [{"gpu": "rtx-4090-24gb", "count": 200}], {"host_experts": True}),
    ("Qwen/Qwen3-30B-A3B", MIXED, {}),
    ("Qwen/Qwen3-30B-A3B", MIXED, {"host_experts": True, "expert_layers": [4, 4, 0, 2, 2]}),
    ("meta-llama/Llama-3.1-8B", MIXED, {"tensor_split": [1, 0, 3, 0, 1]}),
    ("meta-llama/Llama-3.1-8B", MIXED, {"split_mode": "none"}),
    ("deepseek-ai/DeepSeek-V2-Lite", [{"gpu": "rtx-4090-24gb", "count": 40}], {"gpu_layers": 99}),
]


def asked(model: str, rows: list[dict[str, Any]], given: dict[str, Any]) -> Plan:
    document = {
        "version": 1,
        "task": "serve",
        "model": {"id": model},
        "hardware": {"devices": rows, "host_memory_gib": 64},
        "runtime": {"name": "llama_cpp"},
        "serving": {"weights": "q4_k_m", "max_model_len": 8192, "max_sequences": 1, **given},
    }
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return plan(scenario, TABLES)


@pytest.mark.parametrize(("model", "rows", "given"), CASES)
def test_shared_or_each_by_itself(
    model: str, rows: list[dict[str, Any]], given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = asked(model, rows, given)

    def each(share: Share, _scenario: Scenario) -> int:
        return share.indices[0]

    monkeypatch.setattr(ledgers, "alike", each)
    assert asked(model, rows, given) == shared


def test_many_cards_hold_few_different_things() -> None:
    found = asked(*CASES[0])
    assert [index for device in found.devices for index in device.indices] == list(range(200))
    assert len({id(device.ledger) for device in found.devices}) < 100


@pytest.mark.parametrize(("count", "groups"), [(48, 48), (49, 49), (200, 98), (100_000, 98)])
def test_devices_without_a_layer_are_one_group_between_those_with_one(count: int, groups: int) -> None:
    """48 layers and the output layer: 49 devices hold something, the first among them."""
    found = asked(CASES[0][0], [{"gpu": "rtx-4090-24gb", "count": count}], {})
    assert sum(len(device.indices) for device in found.devices) == count
    assert len(found.devices) == groups


def test_devices_of_two_kinds_without_a_layer_stay_apart() -> None:
    found = asked("meta-llama/Llama-3.1-8B", MIXED, {"split_mode": "none"})
    assert [device.indices for device in found.devices] == [(0,), (1, 2), (3, 4)]
