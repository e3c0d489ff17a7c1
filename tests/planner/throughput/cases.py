"""Small jobs of the speed tests."""

from typing import Any

from hardware_db import load_tables
from planner.estimate import plan
from planner.hardware import Tables
from planner.plan_types import Plan
from planner.validation import parse_scenario

TABLES: Tables = load_tables()
LLAMA_8B = "meta-llama/Llama-3.1-8B"


def made(document: dict[str, Any], tables: Tables = TABLES) -> Plan:
    scenario, issues = parse_scenario({"version": 1, **document})
    assert scenario is not None, issues
    return plan(scenario, tables)


def training(
    model: str = LLAMA_8B,
    cards: int = 8,
    gpu: str = "h100-sxm-80gb",
    task: str = "full",
    parallel: dict[str, Any] | None = None,
    hardware: dict[str, Any] | None = None,
    **step: Any,
) -> dict[str, Any]:
    given = {"micro_batch": 1, "sequence_length": 4096, "attention": "flash", **step}
    return {
        "task": task,
        "model": {"id": model},
        "hardware": {
            "devices": [{"gpu": gpu, "count": cards}],
            "devices_per_node": min(8, cards),
            **(hardware or {}),
        },
        "runtime": {"name": "torchtitan", "compile": True},
        "training": given,
        "parallel": parallel or {"sharding": "fsdp"},
    }


def serving(
    model: str = LLAMA_8B,
    cards: int = 1,
    gpu: str = "h100-sxm-80gb",
    runtime: str = "vllm",
    load: dict[str, Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    return {
        "task": "serve",
        "model": {"id": model},
        "hardware": {"devices": [{"gpu": gpu, "count": cards}]},
        "runtime": {"name": runtime},
        "parallel": {"tensor": cards},
        "serving": {"weights": "bf16", "max_model_len": 8192, **settings},
        "workload": load or {"concurrency": 1, "prompt_tokens": 1024, "output_tokens": 256},
    }
