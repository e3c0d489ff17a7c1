"""Scratch buffers of llama.cpp's compute graphs, on a device and on the host."""

from typing import Final

from planner.ledger import Category, Entry, Symbol
from planner.memory.serving_demand import longest_tokens
from planner.memory.serving_entry import RUNNING, entry
from planner.model.spec import ModelSpec
from planner.placement import Share
from planner.scenario import Scenario
from planner.units import round_up

DEFAULT_STEP: Final = 512


def step_tokens(scenario: Scenario, model: ModelSpec) -> int:
    """Tokens of one compute step (`n_ubatch`), never more than the context."""
    return min(scenario.serving.batched_tokens or DEFAULT_STEP, longest_tokens(scenario, model))


def compute_entries(share: Share, scenario: Scenario, model: ModelSpec) -> list[Entry]:
    """The compute buffer of one device: 32-bit tensors for one step of tokens.

    With the output layer: logits and the residual stream. Without flash attention, every head's scores over the whole
    context where they are larger. Without the output layer: the widest feed-forward moment.
    """
    if not share.layers and not share.holds_head:
        return []
    tokens = step_tokens(scenario, model)
    symbols: tuple[Symbol, ...] = (("u", tokens), ("E", model.hidden_size))
    streams = 2 if model.has_experts or not scenario.serving.flash_attention else 1
    parts = []
    if share.holds_head:
        parts.append("V + r*E")
        symbols = (*symbols, ("V", model.vocab_size), ("r", streams))
    if share.layers:
        width = max(layer.mlp.intermediate_size for layer in share.layers)
        parts.append("2*F + 2*E")
        symbols = (*symbols, ("F", width))
    if scenario.serving.flash_attention is False and share.layers:
        heads = max(layer.attention.num_heads for layer in share.layers)
        parts.append("H*n + n + 6*E")
        symbols = (*symbols, ("H", heads), ("n", round_up(longest_tokens(scenario, model), 256)))
    widest = f"max({', '.join(parts)})" if len(parts) > 1 else f"({parts[0]})"
    estimate = not (share.holds_head and scenario.serving.flash_attention)
    return [
        entry(
            Category.ACTIVATIONS, "compute_buffer", f"u*{widest}*4", symbols, "llama_compute_buffer",
            phases=RUNNING, estimate=estimate,
        )
    ]  # fmt: skip


def host_compute_bytes(scenario: Scenario, model: ModelSpec) -> int:
    """The host's scratch buffer: attention mask over the context and the residual stream, in 32 bit."""
    context = round_up(longest_tokens(scenario, model), 256)
    return step_tokens(scenario, model) * (context + model.hidden_size) * 4
