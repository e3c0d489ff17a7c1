"""Text Generation Inference: defaults of the launcher."""

from planner.memory.serving_demand import longest_tokens
from planner.memory.weight_formats import served_format
from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.scenario import Scenario


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    weights = scenario.serving.weights or served_format(model)
    return {
        "serving.weights": weights,
        "serving.kv_cache": weights if weights in {"fp16", "fp32"} else "bf16",
        "serving.max_model_len": min(longest_tokens(scenario, model), 4096),
        "serving.memory_utilization": 1.0,
        "serving.batched_tokens": 4096,
        "serving.max_sequences": 128,
        "serving.block_size": 16,
        "serving.cuda_graphs": True,
        "serving.cuda_graph_max_batch": 32,
    }


TGI = Profile(name="tgi", kind="serving", defaults=_defaults, reference="tgi_launcher")
