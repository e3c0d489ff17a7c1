"""DeepSpeed's engine around a Hugging Face model."""

from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.runtimes.pytorch_common import training_defaults
from planner.scenario import Scenario


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    """16-bit parameters and gradients, fp32 master copy and moments, FusedAdam."""
    return {
        **training_defaults(scenario, model),
        "training.precision.master": "fp32",
        "training.precision.optimizer": "fp32",
        "training.optimizer.implementation": "fused",
    }


DEEPSPEED = Profile(name="deepspeed", kind="training", defaults=_defaults, reference="defaults_deepspeed")
