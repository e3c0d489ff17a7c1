"""Choosing a diffusion pipeline in the form."""

import pytest

from planner.document import get, put
from planner.model.native_size import side_of, tokens_of
from planner.plan_types import Verdict
from ui.answers import answer
from ui.document import Document
from ui.limits import largest_micro_batch, largest_sequence
from ui.pictures import (
    TARGETS,
    described,
    fitted,
    latents_of,
    latents_of_id,
    pipeline_labels,
)

FLUX = "black-forest-labs/FLUX.1-dev"
DIVIDED: Document = {
    "version": 1,
    "task": "lora",
    "model": {"id": FLUX},
    "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 4}]},
    "runtime": {"name": "megatron_lm"},
    "training": {"sequence_length": 8192, "kernels": ["rope"]},
    "parallel": {"tensor": 2, "pipeline": 2, "pipeline_layers": [16, 16], "sharding": "zero1"},
    "adapter": {"rank": 8, "targets": ["q_proj", "v_proj"]},
}


def test_every_pipeline_can_be_chosen() -> None:
    assert len(described()) == 17
    assert pipeline_labels("en")[FLUX] == "FLUX.1-dev, 16.9\N{NO-BREAK SPACE}B, diffusion"


def test_what_a_pipeline_cannot_be_asked_is_taken_out() -> None:
    changed = fitted(DIVIDED)
    assert get(changed, "runtime") == {"name": "generic"}
    assert get(changed, "parallel") == {"sharding": "zero1"}
    assert get(changed, "adapter.targets") == TARGETS
    assert get(changed, "training") == {"sequence_length": 4608}
    assert not answer(changed).errors


def test_a_size_that_was_chosen_stays_from_task_to_task() -> None:
    assert get(fitted(DIVIDED, sized=False), "training.sequence_length") == 8192


def test_other_models_are_left_alone() -> None:
    other = {**DIVIDED, "model": {"id": "meta-llama/Llama-3.1-8B"}}
    assert fitted(other) == other


def test_a_u_nets_own_config_is_asked_for_in_pixels() -> None:
    config = {"_class_name": "UNet2DConditionModel", "cross_attention_dim": 768}
    latents = latents_of({"model": {"config": config}})
    assert latents is not None
    assert tokens_of(latents, 512) == 64 * 64
    assert latents_of({"model": {"config": {"_class_name": "AutoencoderKL"}}}) is None
    assert latents_of({"model": {"config": {"model_type": "llama"}}}) is None


@pytest.mark.parametrize(
    "model_id",
    [
        FLUX,
        "Wan-AI/Wan2.1-T2V-1.3B",
        "Lightricks/LTX-Video",
        "Qwen/Qwen-Image",
        "stabilityai/stable-diffusion-2-1",
    ],
)
@pytest.mark.parametrize("side", [512, 1024, 2048])
def test_a_side_comes_back_from_its_tokens(model_id: str, side: int) -> None:
    latents = latents_of_id(model_id)
    assert latents is not None
    assert side_of(latents, tokens_of(latents, side)) == side


def test_the_largest_picture_and_batch_fit_and_the_next_do_not() -> None:
    document = fitted({**DIVIDED, "hardware": {"devices": [{"gpu": "h100-sxm-80gb"}]}, "parallel": {}})
    document = put(document, "training.checkpointing", "full")
    plan = answer(document).plan
    assert plan is not None
    for path, found, step in (
        ("training.sequence_length", largest_sequence(document, plan), 128),
        ("training.micro_batch", largest_micro_batch(document, plan), 1),
    ):
        verdicts = []
        for size in (found, found + step):
            other = answer(put(document, path, size)).plan
            assert other is not None
            verdicts.append(other.verdict)
        assert verdicts[0] is Verdict.FITS
        assert verdicts[1] is not Verdict.FITS
