"""Scratch buffers of llama.cpp's compute graphs, on a device and on the host."""

from math import ceil
from typing import Final

from planner.ledger import Category, Entry
from planner.memory.kv_cache import KV_BYTES, WINDOWED, model_shapes
from planner.memory.serving_demand import longest_tokens
from planner.memory.serving_entry import RUNNING, entry, evaluate
from planner.memory.serving_llama_cache import (
    WINDOWED_MODELS,
    build_of,
    cells_of,
    device_shapes,
    sequences_of,
)
from planner.memory.serving_llama_latent import (
    copied_experts_moment,
    host_works,
    latent_moments,
    scores_moment,
)
from planner.memory.serving_llama_ollama import own_engine, own_engine_host_width, own_engine_moment
from planner.model.spec import Attention, AttentionKind, Layer, ModelSpec
from planner.placement import Share
from planner.scenario import Scenario
from planner.units import round_up

DEFAULT_STEP: Final = 512
QUANTIZED: Final = frozenset(name for name, (elements, _) in KV_BYTES.items() if elements > 1)
TWO_HOST_STREAMS_FROM: Final = 7400
"""llama.cpp build from about which the host's buffer holds two streams (18.01 MiB for Qwen3-4B at 4096)."""
FEW_OUTPUTS_FROM: Final = 9300
"""llama.cpp build of about June 2026: pull requests 23764 (masks in 16 bit) and 23861 (fewer outputs)."""
DELTA_CHUNK: Final = 64
"""Tokens of a chunk of the delta rule (`build_delta_net_chunking`): with their scores, query, key, value and its
products of a step are held beside the gate. The least that any build's graph holds; earlier ones held more."""
PLAIN_SCORES: Final = "u*(H*n + n + 6*E)*4"


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
    source = "ik_feed_scratch" if scenario.runtime.name == "ik_llama_cpp" else "llama_compute_buffer"
    if own_engine(scenario, model):
        return [
            _compute_entry(own_engine_moment(share, scenario, model, symbols), symbols, source, exact=False)
        ]
    moments = []
    if share.holds_head:
        symbols |= {"V": model.vocab_size, "r": _streams(scenario, model)}
        if few_outputs(scenario):
            symbols["o"] = min(symbols["u"], sequences_of(scenario))
            moments.append("(o*V + u*r*E)*4")
        else:
            moments.append("u*(V + r*E)*4")
    if share.layers:
        moments += _layer_moments(share, scenario, model, symbols)
    widest = f"max({', '.join(moments)})" if len(moments) > 1 else moments[0]
    exact = share.holds_head and bool(scenario.serving.flash_attention) and not _latent(share)
    exact = exact and scenario.runtime.name != "ollama"
    return [_compute_entry(widest, symbols, source, exact=exact)]


def _compute_entry(formula: str, symbols: dict[str, int], source: str, *, exact: bool) -> Entry:
    reference = "ik_latent_scratch" if "Q" in symbols else source
    return entry(
        Category.ACTIVATIONS, "compute_buffer", formula, tuple(symbols.items()), reference,
        phases=RUNNING, estimate=not exact,
    )  # fmt: skip


def conversion_entries(share: Share, scenario: Scenario, model: ModelSpec) -> list[Entry]:
    """Quantized keys and values of one layer in 16 bit: flash attention on a prompt converts them first.

    Taken from CUDA's pool, beside the compute buffer. ik_llama.cpp's latent modes hold it in their graph.
    """
    if scenario.serving.flash_attention is False or scenario.serving.no_kv_offload:
        return []
    if scenario.runtime.name == "ik_llama_cpp" and _latent(share):
        return []
    key = scenario.serving.kv_cache or "fp16"
    value = scenario.serving.kv_cache_v or key
    largest = 0
    for shape in device_shapes(share, scenario, model):
        width = (shape.key if key in QUANTIZED else 0) + (shape.value if value in QUANTIZED else 0)
        largest = max(largest, cells_of(shape, scenario, model) * width)
    if not largest:
        return []
    return [
        entry(
            Category.ACTIVATIONS, "kv_conversion", "n*2", (("n", largest),), "ggml_flash_attention",
            phases=RUNNING, estimate=True,
        )
    ]  # fmt: skip


def _streams(scenario: Scenario, model: ModelSpec) -> int:
    """Residual streams beside the logits: one, and a second for experts or without flash attention.

    The graph of latent models adds routed and shared experts in place and keeps one.
    """
    if any(layer.attention.kind is AttentionKind.MLA for layer in model.layers):
        return 1
    return 2 if model.has_experts or not scenario.serving.flash_attention else 1


def _latent(share: Share) -> Attention | None:
    """The shape of an MLA layer on the device."""
    return _latent_of(share.layers)


def _latent_of(layers: tuple[Layer, ...]) -> Attention | None:
    return next((la.attention for la in layers if la.attention.kind is AttentionKind.MLA), None)


def _layer_moments(share: Share, scenario: Scenario, model: ModelSpec, symbols: dict[str, int]) -> list[str]:
    """The fullest moments inside a layer; adds the symbols they use."""
    symbols["F"] = max(layer.mlp.intermediate_size for layer in share.layers)
    latent = _latent(share)
    flash = scenario.serving.flash_attention is not False
    context = round_up(longest_tokens(scenario, model), 256)
    moments = [_feed_moment(share, scenario, symbols, context, flash=flash)]
    if latent is not None and flash:
        symbols |= {"n": context, "H": latent.num_heads, "d": latent.head_dim, "v": latent.v_head_dim}
        symbols |= {"l": latent.kv_lora_rank, "p": latent.head_dim - latent.qk_rope_head_dim}
        if (scenario.serving.mla_mode or 0) >= 2:
            moments += latent_moments(share, scenario, model, latent, symbols)
        else:
            moments.append("u*H*(2*l + 3*d)*4")
    delta = next((la.attention for la in share.layers if la.attention.kind is AttentionKind.LINEAR), None)
    if delta is not None:
        symbols |= {"D": delta.num_heads * delta.v_head_dim, "C": delta.num_heads * DELTA_CHUNK}
        moments.append("u*(6*D + 2*C + E)*4")
    copied = copied_experts_moment(share, scenario, model, symbols)
    moments += [copied] if copied else []
    if flash and scenario.runtime.name == "llama_cpp":
        symbols["n"] = context
        moments.append("u*(n*0.5 + 4*E)*4" if few_outputs(scenario) else "u*(n*1.5 + 4*E)*4")
    if scenario.serving.no_kv_offload and flash:
        symbols |= {"n": context, "c": _largest_cache_bytes(share, scenario, model)}
        moments.append("n*c + u*n*2 + u*8*E*4")
    if not flash:
        symbols |= {"n": context, "H": max(layer.attention.num_heads for layer in share.layers)}
        absorbed = latent is not None and bool(scenario.serving.mla_mode)
        scores = scores_moment(share.layers, symbols, latent) if latent is not None and absorbed else ""
        moments.append(scores or PLAIN_SCORES)
    return moments


def _feed_moment(
    share: Share, scenario: Scenario, symbols: dict[str, int], context: int, *, flash: bool
) -> str:
    """Both halves of the widest feed-forward layer, the residual stream and its norm.

    ik_llama.cpp's product of the halves is one operation whose result needs a place of its own. Beside it
    stands the mask in 16 bit if attention follows on the device; on the first the 32-bit mask that it was
    made from leaves a place that nothing wider than a row of it fits into.
    """
    if scenario.runtime.name != "ik_llama_cpp":
        return "u*(2*F + 2*E)*4"
    widest = max(i for i, layer in enumerate(share.layers) if layer.mlp.intermediate_size == symbols["F"])
    attends = any(layer.attention.kind is not AttentionKind.NONE for layer in share.layers[widest:])
    if not (flash and attends):
        return "u*(3*F + 2*E)*4"
    symbols["n"] = context
    if share.indices[0]:
        return "u*(3*F + 2*E)*4 + u*n*2"
    kept = "2*E + n" if context < symbols["E"] else "max(2*E, E + n)" if context < 2 * symbols["E"] else "n"
    return f"u*(3*F + {kept})*4 + u*n*2"


def _largest_cache_bytes(share: Share, scenario: Scenario, model: ModelSpec) -> int:
    """Keys and values of one token in one layer: a layer's cache on the host is copied when due."""
    key = scenario.serving.kv_cache or "fp16"
    value = scenario.serving.kv_cache_v or key
    shapes = model_shapes(model, share.layers, 1)
    return max((ceil(shape.token_bytes(key, value)) for shape in shapes), default=0)


def host_compute_bytes(scenario: Scenario, model: ModelSpec, host_layers: int = 0) -> int:
    """The host's scratch buffer: attention masks over the cache and the residual stream, in 32 bit.

    Where the host multiplies routed experts itself: the stream, the activations of a token's experts and
    their outputs, each in the place of the mask where that is large enough, else behind it.

    Args:
        scenario: The question with its runtime's defaults filled in.
        model: The model.
        host_layers: Layers that run on the host; without flash attention every head's scores count there.
    """
    step = step_tokens(scenario, model)
    masks = _mask_cells(scenario, model)
    width = _mask_width(masks, scenario) + _host_streams(scenario) * model.hidden_size
    mlp = next((layer.mlp for layer in reversed(model.layers) if layer.mlp.num_experts), None)
    if mlp is not None and scenario.runtime.name == "ik_llama_cpp" and host_works(scenario, model, step):
        k = mlp.experts_per_token
        width = _placed(masks, (model.hidden_size, k * mlp.intermediate_size, k * model.hidden_size))
    if host_layers:
        width = own_engine_host_width(scenario, model, masks) or width
    scratch = step * width * 4
    if host_layers and scenario.serving.flash_attention is False:
        scratch = max(scratch, _host_scores_bytes(scenario, model, host_layers))
    return scratch


def few_outputs(scenario: Scenario) -> bool:
    """Whether a named build of llama.cpp's server makes room for one row of logits a slot, not one a token.

    The same builds make masks for flash attention in 16 bit. A build that isn't named is priced the larger
    way.
    """
    named = scenario.runtime.name == "llama_cpp" and scenario.runtime.version is not None
    return named and build_of(scenario) >= FEW_OUTPUTS_FROM


def _host_streams(scenario: Scenario) -> int:
    """Residual streams in the host's buffer: two in later builds of llama.cpp with flash attention."""
    later = scenario.runtime.name == "llama_cpp" and build_of(scenario) >= TWO_HOST_STREAMS_FROM
    return 2 if later and scenario.serving.flash_attention else 1


def _mask_width(cells: int, scenario: Scenario) -> int:
    """Width of the masks in 32-bit units: half where a named build makes them in 16 bit."""
    return cells // 2 if few_outputs(scenario) and scenario.serving.flash_attention else cells


def _placed(hole: int, parts: tuple[int, ...]) -> int:
    """Width of a buffer in which `parts` are put one after the other: into a freed place, else at its end."""
    total = hole
    for part in parts:
        if part < hole:
            hole -= part
        else:
            total += part
    return total


def _mask_cells(scenario: Scenario, model: ModelSpec) -> int:
    """Cells that masks cover: the whole context, and the windowed layers' cells where a model has both."""
    context = round_up(longest_tokens(scenario, model), 256)
    shapes = model_shapes(model, model.layers, 1)
    windowed = [shape for shape in shapes if shape.kind in WINDOWED]
    follows = model.model_type in WINDOWED_MODELS
    return context + (max(cells_of(s, scenario, model) for s in windowed) if windowed and follows else 0)


def _host_scores_bytes(scenario: Scenario, model: ModelSpec, host_layers: int) -> int:
    """Scores of every head over the context, for the layers that run on the host."""
    layers = model.layers[:host_layers]
    symbols = {
        "u": step_tokens(scenario, model),
        "E": model.hidden_size,
        "n": round_up(longest_tokens(scenario, model), 256),
        "H": max(layer.attention.num_heads for layer in layers),
    }
    latent = _latent_of(layers)
    absorbed = latent is not None and bool(scenario.serving.mla_mode)
    moment = scores_moment(layers, symbols, latent) if latent is not None and absorbed else PLAIN_SCORES
    return round(evaluate(moment, tuple(symbols.items())))
