"""Operations of pictures."""

from typing import Any

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.placement import place
from planner.plan_types import Plan
from planner.scenario import Scenario
from planner.throughput.stage_load import StageLoad
from planner.throughput.tower_flops import tower_load
from planner.throughput.training_speed import training_speed
from planner.training.setup import setup_for

LLAVA: dict[str, Any] = {
    "model_type": "llava",
    "vision_feature_layer": -2,
    "vision_config": {
        "model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
        "num_attention_heads": 16, "image_size": 336, "patch_size": 14,
    },
    "text_config": {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064,
    },
}  # fmt: skip
PATCHES, TOKENS, USED = 577, 576, 23
LAYER = 4 * 1024 * 1024 + 2 * 1024 * 4096
PROJECTOR = 1024 * 4096 + 4096 * 4096


def planned(**training: Any) -> Plan:
    document = {
        "version": 1, "task": "full", "model": {"config": LLAVA}, "runtime": {"name": "hf_trainer"},
        "hardware": {"devices": [{"gpu": "h200-sxm-141gb"}]},
        "training": {"sequence_length": 2048, "checkpointing": "none", **training},
    }  # fmt: skip
    return plan(Scenario.model_validate(document), load_tables())


def load(**training: Any) -> StageLoad | None:
    found = planned(**training)
    share = place(found.resolved, found.model, load_tables())[0]
    return tower_load(share, setup_for(share, found.resolved, found.model), found.model)


@pytest.mark.parametrize(("tower", "products"), [("trained", 3), ("frozen", 1)])
def test_products_are_those_of_the_layers_that_are_read_and_of_the_projector(
    tower: str, products: int
) -> None:
    found = load(images=2, tower=tower)
    assert found is not None
    assert found.full == 2 * products * 2 * (PATCHES * USED * LAYER + TOKENS * PROJECTOR)
    assert found.attention == pytest.approx((3.5 if products == 3 else 1) * 2 * USED * 4 * 1024 * PATCHES**2)


def test_text_alone_asks_for_nothing_and_pictures_take_time() -> None:
    assert load() is None
    tables = load_tables()
    alone, seen = (training_speed(found, tables) for found in (planned(), planned(images=3)))
    assert alone.step_time_s is not None
    assert seen.step_time_s is not None
    assert seen.step_time_s > alone.step_time_s
    assert seen.model_flops > alone.model_flops
