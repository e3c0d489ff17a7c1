"""TensorRT-LLM: defaults of `trtllm-serve`."""

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
        "serving.max_model_len": longest_tokens(scenario, model),
        "serving.memory_utilization": 0.9,
        "serving.batched_tokens": 8192,
        "serving.max_sequences": 2048,
        "serving.block_size": 32,
        "serving.cuda_graphs": True,
        "serving.cuda_graph_max_batch": 128,
        "serving.prefix_caching": True,
    }


TENSORRT_LLM = Profile(name="tensorrt_llm", kind="serving", defaults=_defaults, reference="tensorrt_llm_args")
