"""Runtime profiles: one file per framework or engine."""

from planner.runtimes.deepspeed import DEEPSPEED
from planner.runtimes.generic import GENERIC
from planner.runtimes.hf_trainer import HF_TRAINER
from planner.runtimes.litgpt import LITGPT
from planner.runtimes.megatron_lm import MEGATRON_LM
from planner.runtimes.profile import Profile
from planner.runtimes.serving import SERVING
from planner.runtimes.torchtitan import TORCHTITAN
from planner.runtimes.torchtune import TORCHTUNE
from planner.runtimes.unsloth import UNSLOTH

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        GENERIC,
        DEEPSPEED,
        HF_TRAINER,
        LITGPT,
        MEGATRON_LM,
        TORCHTITAN,
        TORCHTUNE,
        UNSLOTH,
        *SERVING,
    )
}


def profile_for(name: str) -> Profile:
    """The profile of a runtime; one without its own file uses the generic habits."""
    return PROFILES.get(name, GENERIC)
