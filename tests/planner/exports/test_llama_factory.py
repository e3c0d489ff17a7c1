"""What LLaMA-Factory's file says of pictures."""

from typing import Any

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.exports.llama_factory import llama_factory
from planner.scenario import Scenario


def text_of(task: str = "full", **training: Any) -> str:
    document: dict[str, Any] = {
        "version": 1,
        "task": task,
        "model": {"id": "Qwen/Qwen3-VL-4B-Instruct"},
        "hardware": {"devices": [{"gpu": "h200-sxm-141gb"}]},
        "runtime": {"name": "hf_trainer"},
        "training": {"sequence_length": 4096, **training},
    }
    if task == "lora":
        document["adapter"] = {"rank": 16, "targets": "all_linear"}
    return llama_factory(plan(Scenario.model_validate(document), load_tables())).text


@pytest.mark.parametrize(
    ("task", "tower", "frozen"),
    [
        ("full", None, "false"),
        ("full", "trained", "false"),
        ("full", "frozen", "true"),
        ("lora", None, "true"),
    ],
)
def test_tower_and_projector_are_frozen_where_the_plan_has_them_so(
    task: str, tower: str | None, frozen: str
) -> None:
    text = text_of(task, images=2, image_pixels=589_824, tower=tower)
    for line in (
        "image_max_pixels: 589824",
        f"freeze_vision_tower: {frozen}",
        f"freeze_multi_modal_projector: {frozen}",
    ):
        assert line in text


def test_text_alone_says_nothing_of_pictures() -> None:
    assert "freeze" not in text_of()
    assert "image" not in text_of()
