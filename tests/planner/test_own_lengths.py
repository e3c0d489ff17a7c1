"""Lengths that a question leaves out and the model has: pictures of a denoiser, tokens that are a model's own."""

from dataclasses import replace
from typing import Any

import pytest

from planner.cli.report import plan_lines
from planner.estimate import plan
from planner.issues import ScenarioError
from planner.model.native_size import native_tokens, side_of
from planner.model.spec import Latents
from planner.plan_types import Plan
from planner.scenario import Scenario
from planner.throughput.training_speed import training_speed
from tests.planner.validation.questions import TABLES

SDXL = "stabilityai/stable-diffusion-xl-base-1.0"
VIT = "google/vit-base-patch16-224"
CLIP = "openai/clip-vit-base-patch32"
SIGLIP = "google/siglip-so400m-patch14-384"
WHISPER = "openai/whisper-small"


def _plan(model: str | dict[str, Any], task: str = "full", runtime: str = "generic", **blocks: Any) -> Plan:
    adapter = {"adapter": {"rank": 8, "targets": ["to_q"]}} if task == "lora" else {}
    document = {
        "version": 1,
        "task": task,
        "model": {"id": model} if isinstance(model, str) else {"config": model},
        "hardware": {"devices": [{"gpu": "h100-sxm-80gb"}]},
        "runtime": {"name": runtime},
        **adapter,
        **blocks,
    }
    return plan(Scenario.model_validate(document), TABLES)


@pytest.mark.parametrize(
    ("task", "runtime", "field"),
    [
        ("lora", "generic", "training.sequence_length"),
        ("serve", "generic", "serving.max_model_len"),
        ("serve", "transformers", "serving.max_model_len"),
    ],
)
@pytest.mark.parametrize(
    ("model", "tokens", "size"),
    [
        (SDXL, 128 * 128, "a picture of 1024 x 1024"),
        ("stable-diffusion-v1-5", 64 * 64, "a picture of 512 x 512"),
        ("black-forest-labs/FLUX.1-dev", 64 * 64 + 512, "a picture of 1024 x 1024"),
        ("genmo/mochi-1-preview", 64 * 64 + 256, "a clip of 6 frames of 1024 x 1024"),
    ],
)
def test_a_picture_that_no_one_sized_is_as_large_as_the_models_own(
    model: str, tokens: int, size: str, task: str, runtime: str, field: str
) -> None:
    left_out = _plan(model, task, runtime)
    assert dict(left_out.defaults)[field] == str(tokens)
    block, name = field.split(".")
    given = _plan(model, task, runtime, **{block: {name: tokens}})
    assert field not in dict(given.defaults)
    assert given.worst.peak_bytes == left_out.worst.peak_bytes
    assert f"{field} = {tokens} ({size})" in "\n".join(plan_lines(left_out))


def test_a_size_that_is_given_is_planned() -> None:
    small = _plan(SDXL, "lora", training={"sequence_length": 4096})
    assert small.resolved.training.sequence_length == 4096
    assert small.worst.peak_bytes < _plan(SDXL, "lora").worst.peak_bytes


def test_a_native_picture_has_its_side() -> None:
    latents = _plan(SDXL, "lora").model.latents
    assert isinstance(latents, Latents)
    for side in (512, 1024, 2048):
        sized = replace(latents, native_side_px=side)
        assert side_of(sized, native_tokens(sized)) == side


@pytest.mark.parametrize(
    ("model", "tokens"),
    [(VIT, 197), ("facebook/dinov2-large", 1370), (CLIP, 77), (SIGLIP, 64), (WHISPER, 1500)],
)
def test_tokens_that_are_the_models_own_are_filled_in_for_memory_and_time(model: str, tokens: int) -> None:
    left_out = _plan(model)
    assert dict(left_out.defaults)["training.sequence_length"] == str(tokens)
    same = _plan(model, training={"sequence_length": tokens})
    assert same.worst.peak_bytes == left_out.worst.peak_bytes
    assert not [issue for issue in same.issues if issue.code == "no_effect"]
    assert training_speed(left_out, TABLES).step_tokens == tokens


@pytest.mark.parametrize(("model", "other"), [(VIT, 50), (VIT, 100_000), (CLIP, 50), (WHISPER, 300)])
def test_another_number_of_tokens_has_no_effect_on_memory_or_time(model: str, other: int) -> None:
    own, asked = _plan(model), _plan(model, training={"sequence_length": other})
    warned = [issue.field for issue in asked.issues if issue.code == "no_effect"]
    assert warned == ["training.sequence_length"]
    assert asked.worst.peak_bytes == own.worst.peak_bytes
    first, second = (training_speed(one, TABLES) for one in (own, asked))
    assert (first.step_time_s, first.step_tokens) == (second.step_time_s, second.step_tokens)


@pytest.mark.parametrize(
    ("model", "field", "most"),
    [
        (CLIP, "sequence_length", 77),
        (WHISPER, "sequence_length", 1500),
        (WHISPER, "decoder_sequence_length", 448),
    ],
)
def test_more_tokens_than_positions_are_refused(model: str, field: str, most: int) -> None:
    assert _plan(model, training={field: most}).worst.peak_bytes > 0
    with pytest.raises(ScenarioError) as refusal:
        _plan(model, training={field: most + 1})
    (issue,) = (one for one in refusal.value.issues if one.code == "sequence_beyond_positions")
    assert (issue.field, dict(issue.params)) == (f"training.{field}", {"given": most + 1, "allowed": most})


def test_a_shorter_answer_takes_less_of_whisper() -> None:
    whole, short = (
        _plan(WHISPER, runtime="hf_trainer", training=training)
        for training in ({}, {"decoder_sequence_length": 100})
    )
    assert dict(whole.defaults)["training.decoder_sequence_length"] == "448"
    assert short.worst.peak_bytes < whole.worst.peak_bytes
    flops = [training_speed(one, TABLES).model_flops for one in (short, whole)]
    assert flops[0] < flops[1]


def test_an_image_tower_is_timed_at_its_own_tokens_beside_a_text() -> None:
    """ViT-B/16 against CLIP's tower of the same layers: 197 tokens each, the text besides."""
    alone = training_speed(_plan(VIT), TABLES).model_flops
    paired = training_speed(_plan("openai/clip-vit-base-patch16"), TABLES).model_flops
    text = 6 * 77 * 12 * 12 * 512 * 512
    assert paired == pytest.approx(alone + text, rel=0.01)


def test_a_gated_dinov2_takes_pictures_of_any_size() -> None:
    """Its step is not followed operation by operation: what is given counts, its own size where nothing is."""
    config = {
        "model_type": "dinov2", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 512, "patch_size": 14, "image_size": 518, "num_channels": 3,
        "use_swiglu_ffn": True, "gated_mlp": True,
    }  # fmt: skip
    small, own = (_plan(config, training=training) for training in ({"sequence_length": 257}, {}))
    assert small.resolved.training.sequence_length == 257
    assert dict(own.defaults)["training.sequence_length"] == str(37 * 37 + 1)
    assert small.worst.peak_bytes < own.worst.peak_bytes
    assert not [issue for issue in small.issues if issue.code == "no_effect"]
