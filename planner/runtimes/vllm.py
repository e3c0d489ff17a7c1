"""vLLM."""

from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.scenario import Scenario


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    return {"serving.weights": "bf16", "serving.kv_cache": "bf16", "serving.memory_utilization": 0.9}


VLLM = Profile(name="vllm", kind="serving", defaults=_defaults, reference="vllm_engine_args")
