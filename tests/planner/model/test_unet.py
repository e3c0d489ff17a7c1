"""Reading a U-Net's config.json: what is counted, and what is refused by field, value and what is allowed."""

from typing import Any

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.issues import ScenarioError
from planner.model.errors import UnknownArchitecture
from planner.model.from_config import model_from_config
from planner.model.unet_shape import UnetShape
from planner.validation import parse_scenario

SMALL: dict[str, Any] = {
    "_class_name": "UNet2DConditionModel",
    "_diffusers_version": "0.24.0",
    "act_fn": "silu",
    "block_out_channels": [32, 64],
    "cross_attention_dim": 48,
    "attention_head_dim": [2, 4],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
    "in_channels": 4,
    "out_channels": 4,
    "layers_per_block": 1,
    "norm_num_groups": 8,
    "transformer_layers_per_block": [1, 2],
    "use_linear_projection": True,
}


def test_a_config_of_the_class_is_read_without_a_model_type() -> None:
    """1,317,476: `UNet2DConditionModel` of diffusers 0.42.1 with this config on the meta device."""
    spec = model_from_config(SMALL)
    assert spec.model_type == "unet_2d_condition"
    assert spec.params_total == 1_317_476


def test_the_defaults_are_those_of_stable_diffusion_1() -> None:
    spec = model_from_config({"_class_name": "UNet2DConditionModel", "cross_attention_dim": 768})
    assert spec.params_total == 859_520_964


def test_channels_that_come_to_the_way_up() -> None:
    shape = model_from_config(SMALL | {"block_out_channels": [32, 64], "layers_per_block": 2}).unet
    assert isinstance(shape, UnetShape)
    assert list(shape.up()) == [(1, 2, (128, 128, 96)), (0, 0, (96, 64, 64))]


@pytest.mark.parametrize(
    ("change", "key", "allowed"),
    [
        (
            {"down_block_types": ["AttnDownBlock2D", "DownBlock2D"]},
            "down_block_types",
            "CrossAttnDownBlock2D",
        ),
        ({"up_block_types": ["UpBlock2D"]}, "up_block_types", "2"),
        ({"mid_block_type": "UNetMidBlock2DSimpleCrossAttn"}, "mid_block_type", "UNetMidBlock2DCrossAttn"),
        ({"attention_head_dim": [2, 5]}, "attention_head_dim", "a divisor of 64"),
        ({"class_embed_type": "timestep"}, "class_embed_type", "null"),
        ({"dual_cross_attention": True}, "dual_cross_attention", "false"),
        ({"only_cross_attention": True}, "only_cross_attention", "false"),
        ({"resnet_time_scale_shift": "scale_shift"}, "resnet_time_scale_shift", "default"),
        ({"addition_embed_type": "image"}, "addition_embed_type", "text_time"),
        ({"conv_in_kernel": 1}, "conv_in_kernel", "3"),
        ({"block_out_channels": [32] * 7}, "block_out_channels", "1..6"),
        ({"transformer_layers_per_block": [[1], [2]]}, "transformer_layers_per_block", "1"),
        ({"cross_attention_dim": "wide"}, "cross_attention_dim", "1"),
        ({"layers_per_block": 2_048}, "layers_per_block", "1..16"),
        (
            {"layers_per_block": 16, "transformer_layers_per_block": 64},
            "transformer_layers_per_block",
            "500 blocks",
        ),
    ],
)
def test_what_is_not_described_is_refused_with_what_is_allowed(
    change: dict[str, Any], key: str, allowed: str
) -> None:
    with pytest.raises(UnknownArchitecture) as caught:
        model_from_config(SMALL | change)
    assert caught.value.key == key
    assert allowed in caught.value.allowed


@pytest.mark.parametrize("name", ["AutoencoderKL", "UNet3DConditionModel", "StableDiffusionXLPipeline", 7])
def test_another_class_of_diffusers_is_refused_by_name(name: object) -> None:
    document = {
        "version": 1,
        "task": "serve",
        "model": {"config": {"_class_name": name, "latent_channels": 4}},
        "hardware": {"devices": [{"gpu": "rtx-4090-24gb"}]},
    }
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    with pytest.raises(ScenarioError) as caught:
        plan(scenario, load_tables())
    issue = caught.value.issues[0]
    assert (issue.code, issue.field) == ("config_value_bad", "model.config._class_name")
    said = dict(issue.params)
    assert str(name) in str(said["given"])
    assert "UNet2DConditionModel" in str(said["allowed"])
