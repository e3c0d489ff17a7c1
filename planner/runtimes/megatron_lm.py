"""Megatron-LM with Transformer Engine layers."""

from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.runtimes.pytorch_common import training_defaults
from planner.scenario import Scenario


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    """bf16 weights, fp32 main gradients that stay, fp32 master copy and moments, dropout 0.1, fused kernels."""
    return {
        **training_defaults(scenario, model),
        "training.attention": "flash",
        "training.dropout": 0.1,
        "training.precision.gradients": "fp32",
        "training.precision.master": "fp32",
        "training.precision.optimizer": "fp32",
        "training.optimizer.implementation": "fused",
    }


MEGATRON_LM = Profile(name="megatron_lm", kind="training", defaults=_defaults, reference="defaults_megatron")
