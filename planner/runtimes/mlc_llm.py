"""MLC LLM: defaults of `mlc_llm serve`."""

from planner.memory.serving_demand import longest_tokens
from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.scenario import Scenario


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    return {
        "serving.weights": "q4f16_1",
        "serving.kv_cache": "fp16",
        "serving.max_model_len": longest_tokens(scenario, model),
        "serving.memory_utilization": 0.85,
        "serving.batched_tokens": 2048,
        "serving.max_sequences": 80,
        "serving.block_size": 16,
        "serving.cuda_graphs": False,
    }


MLC_LLM = Profile(name="mlc_llm", kind="serving", defaults=_defaults, reference="mlc_engine_config")
