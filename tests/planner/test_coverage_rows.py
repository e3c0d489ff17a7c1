"""Rows of the founding articles that no other test states in their own figures."""

from __future__ import annotations

from hardware_db import load_tables
from planner.claims.types import planned
from planner.plan_types import Plan

TABLES = load_tables()


def gpt3(per_node: int) -> Plan:
    return planned(
        {
            "task": "pretrain",
            "model": {"id": "openai/gpt3-175b"},
            "hardware": {
                "devices": [{"gpu": "a100-sxm-80gb", "count": 64}],
                "devices_per_node": per_node,
            },
            "runtime": {"name": "megatron_lm"},
            "training": {"sequence_length": 2048, "gradient_accumulation": 8, "checkpointing": "full"},
            "parallel": {"tensor": 8, "pipeline": 4, "data": 2},
        },
        TABLES,
    )


def test_b11_tensor_8_across_nodes_of_4_is_warned_of() -> None:
    four, eight = gpt3(4), gpt3(8)
    (warning,) = [issue for issue in four.issues if issue.code == "tensor_spans_nodes"]
    assert warning.field == "parallel.tensor"
    assert dict(warning.params) == {"given": 8, "allowed": 4}
    assert "tensor_spans_nodes" not in {issue.code for issue in eight.issues}


def test_b11_each_stage_has_its_own_breakdown() -> None:
    made = gpt3(4)
    assert [device.stage for device in made.devices] == [0, 1, 2, 3]
    assert all(len(device.indices) == 16 for device in made.devices)
    assert made.devices[0].peak_bytes > made.devices[1].peak_bytes
