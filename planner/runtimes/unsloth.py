"""Unsloth."""

from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.runtimes.pytorch_common import training_defaults
from planner.scenario import Scenario


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    """Its own kernels, fused cross-entropy, checkpointing on, adapters on every projection in fp32 under autocast."""
    return {
        **training_defaults(scenario, model),
        "training.loss": "fused",
        "training.kernels": ("rms_norm", "rope", "swiglu", "lora_attention", "lora_mlp"),
        "training.checkpointing": "full",
        "training.precision.autocast": True,
        "adapter.rank": 16,
        "adapter.alpha": 16.0,
        "adapter.base": "nf4_dq" if scenario.task == "qlora" else "bf16",
        "adapter.targets": ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
    }


UNSLOTH = Profile(name="unsloth", kind="training", defaults=_defaults, reference="defaults_unsloth")
