"""llama.cpp: defaults of `llama-server`."""

from planner.memory.serving_demand import shared_context, slots, version_of
from planner.memory.serving_gguf import file_type
from planner.memory.serving_stored import stored_type
from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.scenario import Scenario

AUTO_SLOTS_FROM = 7400
"""Build from about which the server opens four slots unless told."""


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    return {
        "serving.weights": stored_type(scenario) or file_type(model),
        "serving.kv_cache": "fp16",
        "serving.max_model_len": shared_context(scenario, model.max_position_embeddings or 4096),
        "serving.max_sequences": slots(scenario, 4 if version_of(scenario)[0] >= AUTO_SLOTS_FROM else 1),
        "serving.batched_tokens": 512,
        "serving.flash_attention": True,
        "serving.split_mode": "layer",
        "serving.no_kv_offload": False,
        "serving.host_experts": False,
    }


LLAMA_CPP = Profile(name="llama_cpp", kind="serving", defaults=_defaults, reference="llama_server_options")
