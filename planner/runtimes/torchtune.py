"""torchtune's recipes."""

from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.runtimes.pytorch_common import training_defaults
from planner.scenario import Scenario


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    """Everything in bf16 with no master copy, checkpointing on, fused AdamW, cross-entropy in eight chunks.

    LoRA configs have rank 8, alpha 16, adapters in the base's format; QLoRA's base is NF4 with double quantization.
    """
    return {
        **training_defaults(scenario, model),
        "training.loss": "chunked",
        "training.checkpointing": "full",
        "training.optimizer.implementation": "fused",
        "adapter.alpha": 16.0,
        "adapter.dtype": "bf16",
        "adapter.base": "nf4_dq" if scenario.task == "qlora" else "bf16",
        "adapter.targets": ("q_proj", "v_proj", "o_proj"),
    }


TORCHTUNE = Profile(name="torchtune", kind="training", defaults=_defaults, reference="defaults_torchtune")
