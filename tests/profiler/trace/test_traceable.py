"""What a trace cannot follow is refused by field, and what it asks of a card comes from the plan."""

from typing import Any

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.plan_types import Plan
from planner.scenario import Scenario
from planner.units import GIB
from profiler.allocator.settings import parse_settings
from profiler.trace.request import ask, capacity_bytes
from profiler.trace.traceable import why_not_traceable
from tests.profiler.scenarios import LLAMA, scenario


def made(**changes: Any) -> Plan:
    document = scenario(LLAMA, **changes) | {"hardware": {"devices": [{"gpu": "rtx-4090-24gb"}]}}
    return plan(Scenario.model_validate(document), load_tables())


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"runtime.compile": True}, "runtime.compile"),
        ({"runtime.name": "torchtune"}, "runtime.name"),
        ({"parallel.pipeline": 2}, "parallel.pipeline"),
        (
            {"parallel.stages": [{"devices": [0], "layers": 1}, {"devices": [1], "layers": 1}]},
            "parallel.stages",
        ),
        ({"training.loss": "fused"}, "training.loss"),
        ({"training.activation_offload": True}, "training.activation_offload"),
        ({"task": "qlora", "adapter": {"rank": 4, "base": "gptq8"}}, "adapter.base"),
        ({"runtime.name": "litgpt", "training.checkpointing": "full"}, "training.checkpointing"),
        (
            {"runtime.name": "litgpt", "task": "lora", "adapter": {"method": "dora", "base": "bf16"}},
            "adapter.method",
        ),
        ({"training.optimizer.name": "adamw_8bit"}, "training.optimizer.name"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused_by_field(changes: dict[str, Any], field: str) -> None:
    remarks = why_not_traceable(Scenario.model_validate(scenario(LLAMA, **changes)))
    assert field in {remark.field for remark in remarks}
    assert all(remark.code for remark in remarks)


def test_serving_is_refused() -> None:
    document = scenario(LLAMA) | {"task": "serve"}
    assert [remark.field for remark in why_not_traceable(Scenario.model_validate(document))] == ["task"]


def test_a_plain_step_can_be_followed() -> None:
    asked = ask(made(), (8, 9))
    assert asked.refused == ()
    assert asked.options.target.compute_capability == (8, 9)
    assert asked.config["model_type"] == "llama"
    assert not asked.settings.expandable_segments


def test_the_allocator_is_the_runtimes_unless_given() -> None:
    growing = made(**{"runtime.allocator": "expandable_segments"})
    assert ask(growing, (8, 9)).settings.expandable_segments
    given = parse_settings("max_split_size_mb:64")
    assert ask(growing, (8, 9), given).settings is given


def test_flash_is_asked_for_by_name() -> None:
    assert ask(made(**{"training.attention": "flash"}), (9, 0)).options.target.attention == "flash"
    assert ask(made(**{"training.attention": "sdpa"}), (9, 0)).options.target.attention == "auto"


def test_a_card_without_cuda_is_refused() -> None:
    assert [remark.field for remark in ask(made(), None).refused] == ["hardware.devices"]


def test_the_allocator_gets_what_the_process_leaves() -> None:
    worst = made().worst
    assert worst.usable_bytes is not None
    capacity = capacity_bytes(worst)
    assert capacity is not None
    assert worst.usable_bytes - GIB < capacity < worst.usable_bytes
