"""SGLang: defaults of `launch_server`."""

from planner.memory.serving_demand import longest_tokens, memory_gib
from planner.memory.weight_formats import declared_format
from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.scenario import Scenario


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    weights = scenario.serving.weights or declared_format(model) or "bf16"
    size = memory_gib(scenario) or 0
    chunk = 2048 if size < 35 else 4096 if size < 60 else 8192
    return {
        "serving.weights": weights,
        "serving.kv_cache": weights if weights in {"fp16", "fp32"} else "bf16",
        "serving.max_model_len": longest_tokens(scenario, model),
        "serving.memory_utilization": 0.88,
        "serving.batched_tokens": chunk,
        "serving.max_sequences": 256,
        "serving.cuda_graphs": True,
        "serving.cuda_graph_max_batch": 8 if size < 20 else 32 if size < 35 else 160,
        "serving.prefix_caching": True,
    }


SGLANG = Profile(name="sglang", kind="serving", defaults=_defaults, reference="sglang_server_args")
SGLANG_OMNI = Profile(name="sglang_omni", kind="serving", defaults=_defaults, reference="sglang_server_args")
