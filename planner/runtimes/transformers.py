"""Hugging Face Transformers: `generate`, and a plain PyTorch loop for training."""

from planner.memory.serving_demand import longest_tokens
from planner.memory.weight_formats import declared_format
from planner.model.spec import ModelSpec
from planner.runtimes.generic import GENERIC
from planner.runtimes.profile import Defaults, Profile
from planner.scenario import Scenario

STATED_CONTEXT = 4096
"""`generate` takes any length; without a workload a plan has to name one."""


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    if scenario.is_training:
        return GENERIC.defaults(scenario, model)
    weights = scenario.serving.weights or declared_format(model) or "bf16"
    longest = longest_tokens(scenario, model)
    return {
        "serving.weights": weights,
        "serving.kv_cache": weights if weights in {"fp16", "fp32"} else "bf16",
        "serving.max_model_len": longest if scenario.workload else min(longest, STATED_CONTEXT),
        "serving.cuda_graphs": False,
    }


TRANSFORMERS = Profile(
    name="transformers", kind="both", defaults=_defaults, reference="transformers_generation"
)
