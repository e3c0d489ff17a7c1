"""LitGPT's finetune and pretrain scripts."""

from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.runtimes.pytorch_common import training_defaults
from planner.scenario import Scenario


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    """`bf16-true`: parameters, adapters and states in bf16; LoRA of rank 8, alpha 16, dropout 0.05 on query and value.

    Checkpointing comes with FSDP, that is with more than one device.
    """
    several = scenario.hardware.num_devices > 1
    return {
        **training_defaults(scenario, model),
        "training.loss": "chunked",
        "training.checkpointing": "full" if several else "none",
        "adapter.alpha": 16.0,
        "adapter.dropout": 0.05,
        "adapter.dtype": "bf16",
    }


LITGPT = Profile(name="litgpt", kind="training", defaults=_defaults, reference="defaults_litgpt")
