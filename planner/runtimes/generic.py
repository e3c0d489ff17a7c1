"""A plain PyTorch loop: bf16 parameters and AdamW in PyTorch's own defaults."""

from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.scenario import Scenario


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    return {
        "training.attention": "sdpa",
        "training.loss": "standard",
        "training.kernels": (),
        "training.checkpointing": "none",
        "training.packing": "none",
        "training.dropout": 0.0,
        "training.precision.parameters": "bf16",
        "training.precision.compute": "bf16",
        "training.precision.autocast": False,
        "training.optimizer.implementation": "foreach",
        "runtime.compile": False,
        "runtime.allocator": "default",
    }


GENERIC = Profile(name="generic", kind="both", defaults=_defaults, reference="pytorch_optim")
