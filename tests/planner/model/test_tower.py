"""Vision towers as a step sees them."""

import json

import pytest

from benchmarks.picture_cases import CONFIGS
from hardware_db import load_tables
from planner.model import model_from_config, model_from_row, vision
from planner.model.row_towers import SHAPES

ANY_SIZE = {"pixtral": 448 * 448, "qwen2": 448 * 448, "qwen3": 512 * 512}
TOKENS = {
    "clip": (None, 577, 576),
    "siglip": (None, 1024, 1024),
    "gemma3": (None, 1024, 256),
    **{name: (pixels, 1024, 256) for name, pixels in ANY_SIZE.items()},
}
"""Pixels of a picture, its tokens inside the tower, its tokens in the language model."""


@pytest.mark.parametrize("name", TOKENS)
def test_pictures_have_the_patches_and_tokens_of_their_processors(name: str) -> None:
    pixels, sequence, tokens = TOKENS[name]
    tower = model_from_config(CONFIGS[name]).tower
    assert tower is not None
    assert (tower.sequence(pixels), tower.tokens(pixels)) == (sequence, tokens)
    assert tower.fixed == (pixels is None)


def test_a_picture_of_any_size_is_cut_into_whole_groups_of_patches() -> None:
    tower = model_from_config(CONFIGS["qwen2"]).tower
    assert tower is not None
    assert tower.patches(1) == tower.side**2
    assert tower.patches(448 * 449) == tower.patches(448 * 448)


def test_layers_of_a_described_tower_are_part_of_what_is_counted() -> None:
    for name, config in CONFIGS.items():
        model = model_from_config(config)
        block = next(block for block in model.blocks if block.name == "vision_tower")
        assert block.tower is not None, name
        layers = sum(layer.params for layer in block.tower.encoder.layers)
        assert 0.35 * block.params < layers < block.params, name


def test_rows_of_described_families_have_towers_to_the_element() -> None:
    rows = [
        row for row in load_tables().models.values() if row["model_type"] in SHAPES and row["vision_params"]
    ]
    assert len(rows) >= 12
    for row in rows:
        tower = model_from_row(row).tower
        assert tower is not None, row["id"]
        assert tower.projector.out == row["hidden_size"]


def test_a_config_that_lacks_what_a_description_needs_keeps_its_plan() -> None:
    config = json.loads(json.dumps(CONFIGS["clip"]))
    del config["vision_config"]["num_attention_heads"]
    model = model_from_config(config)
    assert model.tower is None
    assert any(block.name == "vision_tower" for block in model.blocks)


def test_every_described_tower_is_counted_too() -> None:
    from planner.model.tower import BUILDERS  # noqa: PLC0415

    assert set(BUILDERS) <= set(vision.TOWERS)
