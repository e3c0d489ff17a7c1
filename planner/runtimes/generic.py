"""A plain PyTorch loop: bf16 parameters and AdamW in PyTorch's own defaults."""

from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.runtimes.pytorch_common import training_defaults
from planner.scenario import Scenario


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    return training_defaults(scenario, model)


GENERIC = Profile(name="generic", kind="both", defaults=_defaults, reference="defaults_pytorch")
