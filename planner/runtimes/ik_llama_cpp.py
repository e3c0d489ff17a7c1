"""ik_llama.cpp: llama.cpp's options with their older defaults, and its own modes for latent attention."""

from planner.memory.serving_demand import shared_context, slots
from planner.memory.serving_gguf import file_type
from planner.memory.serving_stored import stored_type
from planner.model.spec import AttentionKind, ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.scenario import Scenario


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    latent = any(layer.attention.kind is AttentionKind.MLA for layer in model.layers)
    return {
        "serving.weights": stored_type(scenario) or file_type(model),
        "serving.kv_cache": "fp16",
        "serving.max_model_len": shared_context(scenario, model.max_position_embeddings or 4096),
        "serving.max_sequences": slots(scenario, 1),
        "serving.batched_tokens": 512,
        "serving.flash_attention": True,
        "serving.split_mode": "layer",
        "serving.no_kv_offload": False,
        "serving.host_experts": False,
        **({"serving.mla_mode": 3} if latent else {}),
    }


IK_LLAMA_CPP = Profile(name="ik_llama_cpp", kind="serving", defaults=_defaults, reference="ik_llama_options")
