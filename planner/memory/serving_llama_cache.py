"""The cache of llama.cpp and its kin: the whole context at once, windows capped, states per sequence."""

from typing import Final

from planner.ledger import Entry
from planner.memory.kv_cache import STATEFUL, WINDOWED, CacheShape, model_shapes
from planner.memory.serving_cache_entries import cache_entry, state_entry
from planner.memory.serving_demand import longest_tokens, version_of, workload_tokens
from planner.model.spec import AttentionKind, ModelSpec
from planner.placement import Share
from planner.scenario import Scenario
from planner.units import ceil_div, round_up

CELL_STEP: Final = 256
WINDOW_CACHE_FROM: Final = 5432
"""First llama.cpp build with a short cache for windowed layers."""
WINDOWED_MODELS: Final = frozenset({
    "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "cohere2",
    "gpt_oss", "llama4", "llama4_text", "exaone4", "olmo3", "smallthinker", "mimo_v2_flash", "step3p5",
})  # fmt: skip
"""Models whose windows llama.cpp follows; others (Mistral-7B, Phi-3) are run with full attention."""
LATENT_FROM: Final = 5227
"""First build that caches the latent of MLA models."""
LATENT_VALUES_UNTIL: Final = 7600
"""Up to about here the latent was stored a second time as values."""


def build_of(scenario: Scenario) -> int:
    """llama.cpp's build number (`b5331` -> 5331); one without counts as the latest."""
    return version_of(scenario)[0]


def sequences_of(scenario: Scenario) -> int:
    """Slots that share the context."""
    return scenario.serving.max_sequences or 1


def context_each(scenario: Scenario, model: ModelSpec) -> int:
    """Tokens of one sequence: what the workload asks, else an equal part of the whole context."""
    whole = longest_tokens(scenario, model)
    request = workload_tokens(scenario)
    return min(request, whole) if request else max(1, whole // sequences_of(scenario))


def context_of(scenario: Scenario, model: ModelSpec) -> int:
    """The whole context, padded as the cache pads it."""
    return round_up(longest_tokens(scenario, model), CELL_STEP)


def cells_of(shape: CacheShape, scenario: Scenario, model: ModelSpec) -> int:
    """Cached positions of a layer, all sequences together.

    A windowed layer keeps, per slot, the window and one batch, padded to 256, and never more than the slot's
    context.
    """
    context = context_of(scenario, model)
    if (
        shape.window is None
        or shape.kind not in WINDOWED
        or not (shape.ring or caps_windows(scenario, model))
    ):
        return context
    slots = sequences_of(scenario)
    own = round_up(ceil_div(context, slots), CELL_STEP)
    step = scenario.serving.batched_tokens or 512
    return slots * round_up(min(own, shape.window + step), CELL_STEP)


def caps_windows(scenario: Scenario, model: ModelSpec) -> bool:
    """Whether the engine gives the model's windowed layers a cache of their own."""
    name = scenario.runtime.name
    if name == "ik_llama_cpp" or model.model_type not in WINDOWED_MODELS:
        return False
    return name == "ollama" or build_of(scenario) >= WINDOW_CACHE_FROM


def latent_cached(scenario: Scenario) -> bool:
    """Whether MLA models cache their latent; if not, decompressed heads."""
    if scenario.runtime.name == "ik_llama_cpp":
        return bool(scenario.serving.mla_mode)
    return build_of(scenario) >= LATENT_FROM


def device_shapes(share: Share, scenario: Scenario, model: ModelSpec) -> dict[CacheShape, int]:
    """Distinct caches of a device with how many of its layers have them."""
    shapes = model_shapes(model, share.layers, 1, expand_mla=not latent_cached(scenario))
    if not stores_latent_values(scenario):
        return shapes
    return {
        _with_values(shape, share) if shape.kind is AttentionKind.MLA else shape: n
        for shape, n in shapes.items()
    }


def stores_latent_values(scenario: Scenario) -> bool:
    """Whether the latent is stored twice: early builds, and ik's mode 1 without flash attention."""
    if scenario.runtime.name == "ik_llama_cpp":
        return scenario.serving.mla_mode == 1 and not scenario.serving.flash_attention
    return LATENT_FROM <= build_of(scenario) < LATENT_VALUES_UNTIL


def _with_values(shape: CacheShape, share: Share) -> CacheShape:
    rank = next(la.attention.kv_lora_rank for la in share.layers if la.attention.kind is AttentionKind.MLA)
    return CacheShape(kind=shape.kind, key=shape.key, value=rank, index=shape.index)


def cache_entries(share: Share, scenario: Scenario, model: ModelSpec) -> list[Entry]:
    """Caches and states of one device; `no_kv_offload` keeps all of them on the host."""
    if scenario.serving.no_kv_offload:
        return []
    key = scenario.serving.kv_cache or "fp16"
    value = scenario.serving.kv_cache_v or key
    entries = []
    for shape, layers in device_shapes(share, scenario, model).items():
        if shape.kind in STATEFUL:
            entries.append(state_entry(shape, layers, sequences_of(scenario), 4, 4, "llama_recurrent_state"))
        else:
            cells = cells_of(shape, scenario, model)
            entries.append(cache_entry(shape, layers, cells, key, value, "llama_kv_cache"))
    return entries
