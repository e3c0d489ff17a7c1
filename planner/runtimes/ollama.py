"""Ollama: a context of 4096 unless asked, one slot, flash attention where the card allows."""

from planner.memory.serving_demand import shared_context, slots
from planner.memory.serving_gguf import file_type
from planner.memory.serving_llama_ollama import flash_by_default
from planner.memory.serving_stored import stored_type
from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.scenario import Scenario


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    return {
        "serving.weights": stored_type(scenario) or file_type(model),
        "serving.kv_cache": "fp16",
        "serving.max_model_len": shared_context(scenario, 4096),
        "serving.max_sequences": slots(scenario, 1),
        "serving.batched_tokens": 512,
        "serving.flash_attention": flash_by_default(scenario, model),
        "serving.split_mode": "layer",
        "serving.no_kv_offload": False,
        "serving.host_experts": False,
    }


OLLAMA = Profile(name="ollama", kind="serving", defaults=_defaults, reference="ollama_options")
