"""Ollama's own engine, which runs some architectures without llama.cpp: its graphs and flash attention.

Its worst-case graph asks for the logits of the last token only, so the vocabulary hardly counts.
"""

from typing import Final

from planner.memory.kv_cache import WINDOWED
from planner.memory.serving_demand import longest_tokens, version_of
from planner.model.spec import MlpKind, ModelSpec
from planner.placement import Share
from planner.scenario import Scenario
from planner.units import round_up

OWN_ENGINE: Final = frozenset({
    "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gpt_oss", "llama4", "llama4_text", "mistral3",
    "olmo3", "qwen2_5_vl", "qwen3", "qwen3_moe", "qwen3_vl", "qwen3_vl_moe",
})  # fmt: skip
"""Model types that Ollama runs in its own engine."""
FLASH_LATER: Final = frozenset({"gemma3", "gemma3_text", "mistral3"})
FLASH_LATER_FROM: Final = (0, 13, 2)
"""Version from about which these run with flash attention unless told; the others did from the start."""
WITHOUT_FLASH: Final = frozenset({"gemma3n", "gemma3n_text", "llama4", "llama4_text", "qwen2_5_vl"})
CONTEXT_STEP: Final = 256


def own_engine(scenario: Scenario, model: ModelSpec) -> bool:
    """Whether Ollama's own engine runs the model."""
    return scenario.runtime.name == "ollama" and model.model_type in OWN_ENGINE


def flash_by_default(scenario: Scenario, model: ModelSpec) -> bool:
    """Whether Ollama turns flash attention on for the model unless told."""
    if model.model_type in FLASH_LATER:
        return version_of(scenario) >= FLASH_LATER_FROM
    return model.model_type not in WITHOUT_FLASH


def own_engine_moment(share: Share, scenario: Scenario, model: ModelSpec, symbols: dict[str, int]) -> str:
    """The fullest moment of a step in 32 bit; adds the symbols it uses.

    Without flash attention: every head's scores before and after the softmax beside the masks. With it: the
    mask in 32 and in 16 bit beside the feed-forward, for experts each one's output before and after its
    weight.
    """
    layers = share.layers or model.layers
    symbols["n"] = round_up(longest_tokens(scenario, model), CONTEXT_STEP)
    if scenario.serving.flash_attention is False:
        windowed = any(layer.attention.kind in WINDOWED for layer in layers)
        symbols |= {"H": max(layer.attention.num_heads for layer in layers), "m": 2 if windowed else 1}
        return "u*(2*H*n + m*n)*4"
    widest = max((layer.mlp for layer in layers), key=lambda mlp: mlp.experts_per_token * model.hidden_size)
    symbols["f"] = widest.intermediate_size
    if widest.kind is MlpKind.MOE:
        symbols["k"] = widest.experts_per_token
        return "u*(n*1.5 + 2*k*E + 2*k*f + E)*4"
    return "u*(n*1.5 + 2*f + 2*E)*4"


def own_engine_host_width(scenario: Scenario, model: ModelSpec, context: int) -> int | None:
    """Values a token that layers with experts hold on the host, in 32-bit units; None where not known.

    With flash attention: the mask in 16 bit, each visited expert's output and activation, two streams.
    """
    mlp = next((layer.mlp for layer in reversed(model.layers) if layer.mlp.num_experts), None)
    if mlp is None or not own_engine(scenario, model) or scenario.serving.flash_attention is False:
        return None
    visited = mlp.experts_per_token * (model.hidden_size + mlp.intermediate_size)
    return context // 2 + visited + 2 * model.hidden_size
