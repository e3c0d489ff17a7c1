"""Diffusion pipelines in words: whether pictures or clips are made, and what of a clip is not worked out."""

from typing import Final, Literal

from planner.diffusion.gaps import leaves_out_peak
from planner.model.spec import Latents
from planner.plan_types import Plan, Verdict
from ui.numbers import gib1
from ui.words import Safe, Words

Sort = Literal["pictures", "clips"]

SERVING: Final = "decoder"
TRAINING: Final = "encoder"


def sort_of(latents: Latents | None) -> Sort:
    """What a denoiser makes: the name of its words."""
    return "clips" if latents is not None and latents.frames_per_token > 1 else "pictures"


def undescribed(plan: Plan) -> str | None:
    """The half of a clip's VAE for which there is no verdict, None where it has no part in it."""
    if plan.verdict is not Verdict.UNKNOWN or not leaves_out_peak(plan.resolved, plan.model):
        return None
    return TRAINING if plan.resolved.is_training else SERVING


def headline(plan: Plan, part: str, gpu: str, words: Words) -> Safe:
    """What is needed without the part that is not described.

    Args:
        plan: The plan.
        part: As `undescribed` gives it.
        gpu: The fullest card in words.
        words: The reader's language.
    """
    usable = gib1(plan.worst.usable_bytes or 0)
    return words.html(
        f"verdict.unknown.clip_{part}", gpu=gpu, needs=gib1(plan.worst.peak_bytes), usable=usable
    )
