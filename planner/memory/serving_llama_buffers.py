"""Scratch buffers of llama.cpp's compute graphs, on a device and on the host."""

from math import ceil
from typing import Final

from planner.ledger import Category, Entry
from planner.memory.kv_cache import model_shapes
from planner.memory.serving_demand import longest_tokens
from planner.memory.serving_entry import RUNNING, entry
from planner.model.spec import Attention, AttentionKind, ModelSpec
from planner.placement import Share
from planner.scenario import Scenario
from planner.units import mib_bytes, round_up

DEFAULT_STEP: Final = 512
DEVICE_VISITS: Final = 32
"""Tokens an expert must get in a step for its matrices to be copied to a device."""


def step_tokens(scenario: Scenario, model: ModelSpec) -> int:
    """Tokens of one compute step (`n_ubatch`), never more than the context."""
    return min(scenario.serving.batched_tokens or DEFAULT_STEP, longest_tokens(scenario, model))


def compute_entries(share: Share, scenario: Scenario, model: ModelSpec) -> list[Entry]:
    """The compute buffer of one device: 32-bit tensors for one step of tokens.

    The largest of: logits beside the residual stream, on the device with the output layer; both halves of a
    feed-forward layer; without flash attention every head's scores over the whole context; for latent
    attention the keys and values decompressed for the whole context (ik_llama.cpp's modes 2 and 3, whose
    scratch `attention_max_batch_mib` bounds).
    """
    if not share.layers and not share.holds_head:
        return []
    symbols: dict[str, int] = {"u": step_tokens(scenario, model), "E": model.hidden_size}
    moments = []
    if share.holds_head:
        moments.append("u*(V + r*E)*4")
        symbols |= {"V": model.vocab_size, "r": _streams(scenario, model)}
    if share.layers:
        moments += _layer_moments(share, scenario, model, symbols)
    widest = f"max({', '.join(moments)})" if len(moments) > 1 else moments[0]
    exact = share.holds_head and bool(scenario.serving.flash_attention) and not _latent(share)
    exact = exact and scenario.runtime.name != "ollama"
    return [
        entry(
            Category.ACTIVATIONS, "compute_buffer", widest, tuple(symbols.items()), "llama_compute_buffer",
            phases=RUNNING, estimate=not exact,
        )
    ]  # fmt: skip


def _streams(scenario: Scenario, model: ModelSpec) -> int:
    """Residual streams beside the logits: one, and a second for experts or without flash attention."""
    return 2 if model.has_experts or not scenario.serving.flash_attention else 1


def _latent(share: Share) -> Attention | None:
    """The shape of an MLA layer on the device."""
    return next((la.attention for la in share.layers if la.attention.kind is AttentionKind.MLA), None)


def _layer_moments(share: Share, scenario: Scenario, model: ModelSpec, symbols: dict[str, int]) -> list[str]:
    """The fullest moments inside a layer; adds the symbols they use."""
    symbols["F"] = max(layer.mlp.intermediate_size for layer in share.layers)
    moments = ["u*(2*F + 2*E)*4"]
    latent = _latent(share)
    flash = scenario.serving.flash_attention is not False
    context = round_up(longest_tokens(scenario, model), 256)
    if latent is not None and flash:
        symbols |= {"n": context, "H": latent.num_heads, "d": latent.head_dim, "v": latent.v_head_dim}
        symbols |= {"l": latent.kv_lora_rank}
        symbols["p"] = latent.head_dim - latent.qk_rope_head_dim
        bound = scenario.serving.attention_max_batch_mib
        if (scenario.serving.mla_mode or 0) >= 2 and bound:
            symbols["A"] = mib_bytes(bound)
            moments.append("n*H*(d + v)*2 + min(A, n*H*(p + v)*4) + u*(H*l + l)*4")
        elif (scenario.serving.mla_mode or 0) >= 2:
            moments.append("n*H*(d + v)*2 + n*H*(p + v)*4 + u*E*4")
        else:
            moments.append("u*H*(2*l + 3*d)*4")
    if flash and scenario.runtime.name == "llama_cpp":
        symbols["n"] = context
        moments.append("u*(n*1.5 + 4*E)*4")
    if scenario.serving.no_kv_offload and flash:
        symbols |= {"n": context, "c": _largest_cache_bytes(share, scenario, model)}
        moments.append("n*c + u*n*2 + u*8*E*4")
    if not flash:
        symbols |= {"n": context, "H": max(layer.attention.num_heads for layer in share.layers)}
        moments.append("u*(H*n + n + 6*E)*4")
    return moments


def _largest_cache_bytes(share: Share, scenario: Scenario, model: ModelSpec) -> int:
    """Keys and values of one token in one layer: a layer's cache on the host is copied when due."""
    key = scenario.serving.kv_cache or "fp16"
    value = scenario.serving.kv_cache_v or key
    shapes = model_shapes(model, share.layers, 1)
    return max((ceil(shape.token_bytes(key, value)) for shape in shapes), default=0)


def host_compute_bytes(scenario: Scenario, model: ModelSpec) -> int:
    """The host's scratch buffer: attention mask over the context and the residual stream, in 32 bit.

    Where the host multiplies routed experts itself, one stream for each expert that a token visits.
    """
    context = round_up(longest_tokens(scenario, model), 256)
    streams = _host_streams(scenario, model)
    return step_tokens(scenario, model) * (context + streams * model.hidden_size) * 4


def _host_streams(scenario: Scenario, model: ModelSpec) -> int:
    """Residual streams in the host's buffer.

    ik_llama.cpp sends host experts to a device once a step brings each of them 32 tokens; below that the
    host works.
    """
    mlp = next((layer.mlp for layer in reversed(model.layers) if layer.mlp.num_experts), None)
    if mlp is None or scenario.runtime.name != "ik_llama_cpp" or not scenario.serving.host_experts:
        return 1
    visits = step_tokens(scenario, model) * mlp.experts_per_token
    return mlp.experts_per_token if visits < DEVICE_VISITS * mlp.num_experts else 1
