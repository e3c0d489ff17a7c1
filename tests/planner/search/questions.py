"""Questions and machines that the tests of the search share."""

from typing import Any

from hardware_db import load_tables
from planner.scenario import Scenario
from planner.search.types import Machine
from planner.validation import parse_scenario

TABLES = load_tables()
LLAMA_8B = "meta-llama/Llama-3.1-8B"
LLAMA_70B = "meta-llama/Meta-Llama-3-70B"
QWEN_MOE = "Qwen/Qwen3-30B-A3B"


def question(model: str = LLAMA_8B, task: str = "full", runtime: str = "torchtitan", **more: Any) -> Scenario:
    """A training question about 4,096 tokens a sequence."""
    document = {
        "version": 1,
        "task": task,
        "model": {"id": model},
        "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 8}]},
        "runtime": {"name": runtime},
        "training": {"micro_batch": 1, "sequence_length": 4096},
    } | more
    if task in ("lora", "qlora"):
        document.setdefault("adapter", {"method": "lora", "rank": 16, "targets": "all_linear"})
    told = {name: value for name, value in document.items() if value is not None}
    scenario, issues = parse_scenario(told)
    if scenario is None:
        raise ValueError(issues)
    return scenario


def machine(gpu_id: str, devices: int, usd: float | None = 10.0, **more: Any) -> Machine:
    """Something to rent."""
    return Machine(
        name=f"{devices}x {gpu_id}", gpu=TABLES.gpus[gpu_id], devices=devices, usd_per_hour=usd, **more
    )
