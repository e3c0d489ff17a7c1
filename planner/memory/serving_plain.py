"""Engines without a profile run: SGLang, TensorRT-LLM, TGI, MLC, `generate` of Transformers."""

from typing import Final

from planner.hardware import Tables
from planner.ledger import Category, Entry, Ledger, Symbol
from planner.memory.kv_cache import STATEFUL, CacheShape, kv_heads_on_rank
from planner.memory.serving_answer import DeviceAnswer, usable_bytes
from planner.memory.serving_cache_entries import KV_NAMES, STATE_NAME, cache_entry, state_entry
from planner.memory.serving_demand import Demand, demand, version_of, workload_tokens
from planner.memory.serving_draft import cache_reference, cached_shapes
from planner.memory.serving_entry import WORKING, entry
from planner.memory.serving_forward import forward_width
from planner.memory.serving_graphs_sglang import plain_graph_entries
from planner.memory.serving_sharing import common_of
from planner.memory.serving_vllm import (
    communicators,
    context_entries,
    kv_formats,
    weight_entries,
)
from planner.model.distinct import distinct
from planner.model.spec import ModelSpec, Structure
from planner.placement import Share
from planner.scenario import Scenario
from planner.units import ceil_div, round_up

PAGE_TOKENS = {"tensorrt_llm": 32, "mlc_llm": 16}


def plain_entries(share: Share, scenario: Scenario, model: ModelSpec, tables: Tables) -> list[Entry]:
    """Every term of one device of such an engine."""
    asked = demand(scenario, model, share)
    return [
        *weight_entries(share, scenario, model),
        working_entry(share, scenario, model, asked, tables),
        *plain_graph_entries(share, scenario, model, asked, tables),
        *kv_entries(share, scenario, model, asked),
        *cross_entries(share, scenario, model, asked),
        *context_entries(share, tables, communicators=communicators(share, model)),
    ]


def working_entry(share: Share, scenario: Scenario, model: ModelSpec, asked: Demand, tables: Tables) -> Entry:
    """The widest moment of a step, or every running sequence's logits in 32 bit beside 16-bit ones.

    Models with a bias on their scores hold every head's scores of the prompt.
    """
    width = forward_width(share, model)
    tokens = min(asked.prefill_tokens, asked.batched_tokens)
    formula = "T*(m + a*h)*2"
    symbols: tuple[Symbol, ...] = (
        ("T", tokens), ("m", width.inner), ("a", tables.value("vllm_hidden_copies")), ("h", width.hidden),
    )  # fmt: skip
    if share.holds_head and model.head is not None:
        formula = f"max({formula}, B*V*(2 + 4 + 4))"
        symbols = (*symbols, ("B", asked.sequences), ("V", model.vocab_size))
    scored = _scored_prompt(scenario, model, asked)
    if scored is not None:
        prompts, length, heads = scored
        formula = f"max({formula}, P*H*n*n*(2 + 2 + 4 + 4))"
        symbols = (*symbols, ("P", prompts), ("n", length), ("H", heads))
    return entry(
        Category.ACTIVATIONS,
        "activation_peak",
        formula,
        symbols,
        "eager_position_bias" if scored else "forward_working_set",
        phases=WORKING,
        estimate=True,
    )


POSITION_BIAS: Final = frozenset({"t5", "mt5", "umt5", "switch_transformers"})
"""Models whose attention adds a learned bias to every score, for which no fused kernel is used."""


def _scored_prompt(scenario: Scenario, model: ModelSpec, asked: Demand) -> tuple[int, int, int] | None:
    """Prompts, their length and the heads whose scores stand at once; None where attention is fused.

    The bias, scores in 16 bit, the same in 32 bit and their softmax. TGI warms up with prompts of the longest
    length that together fill a prefill.
    """
    if model.model_type not in POSITION_BIAS or not model.layers:
        return None
    heads = model.layers[0].attention.num_heads
    if scenario.runtime.name == "tgi":
        return ceil_div(asked.batched_tokens, asked.longest_tokens), asked.longest_tokens, heads
    prompt = (scenario.workload.prompt_tokens if scenario.workload else None) or asked.context_tokens
    return asked.sequences, prompt, heads


CAPS_WINDOWS_FROM: Final = (4, 56)
"""`DynamicCache` makes a `DynamicSlidingWindowLayer` of each windowed layer from here on (`cache_utils.py`)."""


def plain_shapes(share: Share, scenario: Scenario, model: ModelSpec) -> dict[CacheShape, int]:
    """Caches of a device's layers; Transformers stores latent attention's keys and values of every head."""
    return cached_shapes(share, scenario, model, expand_mla=scenario.runtime.name == "transformers")


def kv_entries(share: Share, scenario: Scenario, model: ModelSpec, asked: Demand) -> list[Entry]:
    """Keys, values and states of the asked load; windows are kept whole, but by `generate` of Transformers."""
    page = PAGE_TOKENS.get(scenario.runtime.name, 1)
    caps = scenario.runtime.name == "transformers" and version_of(scenario) >= CAPS_WINDOWS_FROM
    key, value = kv_formats(scenario)
    common = common_of(scenario)
    entries = []
    for shape, layers in plain_shapes(share, scenario, model).items():
        if shape.kind in STATEFUL:
            entries.append(state_entry(shape, layers, asked.sequences, 4, 2, "state_cache"))
        else:
            length = (
                min(asked.context_tokens, shape.window or asked.context_tokens)
                if caps or shape.ring
                else asked.context_tokens
            )
            saved = 0 if shape.window else common.saved_blocks(asked.sequences, page)
            cells = asked.sequences * round_up(length, page) - saved * page
            source = cache_reference(scenario, shape)
            entries.append(cache_entry(shape, layers, cells, key, value, source))
    return entries


def cross_entries(share: Share, scenario: Scenario, model: ModelSpec, asked: Demand) -> list[Entry]:
    """Keys and values of the encoder's output, kept for every decoder layer of an encoder-decoder."""
    if model.structure is not Structure.ENCODER_DECODER:
        return []
    key, value = kv_formats(scenario)
    prompt = (scenario.workload.prompt_tokens if scenario.workload else None) or asked.context_tokens
    entries = []
    for layer, count in distinct(share.layers):
        cross = layer.cross_attention
        if cross is not None:
            heads = kv_heads_on_rank(cross.num_kv_heads, share.tensor)
            shape = CacheShape(kind=cross.kind, key=heads * cross.head_dim, value=heads * cross.v_head_dim)
            entries.append(cache_entry(shape, count, asked.sequences * prompt, key, value))
    return entries


def ring_bytes(shapes: dict[CacheShape, int], key: str, value: str) -> float:
    """Windows that a sequence keeps beside compressed entries."""
    return sum(n * (s.window or 0) * s.token_bytes(key, value) for s, n in shapes.items() if s.ring)


def no_rule(_share: Share, _ledger: Ledger, _scenario: Scenario, _tables: Tables) -> int | None:
    """No budget: the cache grows with the load until the card is full."""
    return None


def dynamic_answer(
    share: Share, ledger: Ledger, scenario: Scenario, model: ModelSpec, _tables: Tables
) -> DeviceAnswer:
    """What a cache that grows with the load can hold on the card."""
    asked = demand(scenario, model, share)
    context = asked.context_tokens if workload_tokens(scenario) else asked.longest_tokens
    key, value = kv_formats(scenario)
    shapes = plain_shapes(share, scenario, model)
    token = sum(n * s.token_bytes(key, value) for s, n in shapes.items() if not s.ring)
    state = sum(n * (s.state * 4 + s.conv * 2) for s, n in shapes.items())
    state += round(ring_bytes(shapes, key, value))
    taken = ledger.peak()[1]
    caches = ledger.total(*KV_NAMES, STATE_NAME)
    usable = usable_bytes(share)
    left = caches if usable is None else max(0, usable - (taken - caches))
    sequence = context * token + state
    fitting = left / sequence if sequence else float(asked.sequences)
    return DeviceAnswer(
        kv_bytes_per_token=round(token),
        state_bytes_per_sequence=state,
        budget_bytes=None,
        pool_bytes=left,
        tokens=int(left // token) if token else int(fitting) * context,
        longest_tokens=min(asked.longest_tokens, int(max(0, left - state) // token))
        if token
        else asked.longest_tokens * (fitting >= 1),
        concurrency=fitting,
        reserves_bytes=taken,
    )
