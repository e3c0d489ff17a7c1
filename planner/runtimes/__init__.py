"""Runtime profiles: one file per framework or engine."""

from typing import Final

from planner.runtimes.deepspeed import DEEPSPEED
from planner.runtimes.generic import GENERIC
from planner.runtimes.hf_trainer import HF_TRAINER
from planner.runtimes.litgpt import LITGPT
from planner.runtimes.megatron_lm import MEGATRON_LM
from planner.runtimes.profile import Profile
from planner.runtimes.torchtitan import TORCHTITAN
from planner.runtimes.torchtune import TORCHTUNE
from planner.runtimes.unsloth import UNSLOTH

TRAINING: Final[dict[str, Profile]] = {
    profile.name: profile
    for profile in (
        GENERIC, DEEPSPEED, HF_TRAINER, LITGPT, MEGATRON_LM, TORCHTITAN, TORCHTUNE, UNSLOTH,
    )
}  # fmt: skip
"""Those of frameworks. Engines' are in `planner.runtimes.every`, which a training job does without."""


def profile_for(name: str) -> Profile:
    """The profile of a runtime; one without its own file uses the generic habits."""
    if name in TRAINING:
        return TRAINING[name]
    from planner.runtimes.every import PROFILES  # noqa: PLC0415 - only servers need it

    return PROFILES.get(name, GENERIC)
