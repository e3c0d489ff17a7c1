"""One layer's saved tensors on the Hugging Face eager path, put together from `activations` by what the layer is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.memory import activations as act
from planner.memory.adapters import adapter_rank, layer_sites
from planner.memory.terms import Terms, add, scaled
from planner.model.spec import Attention, AttentionKind, Layer, Linear, MlpKind, ModelSpec, Part, Split
from planner.training_setup import Setup
from planner.units import ceil_div

RECURRENT: Final = frozenset({AttentionKind.LINEAR, AttentionKind.STATE_SPACE, AttentionKind.CONVOLUTION})
RESIDUAL_DROPOUT_POSITIONS: Final = frozenset({"learned"})


@dataclass(frozen=True, slots=True)
class LayerForm:
    """What one layer keeps.

    Attributes:
        terms: Bytes per token by width.
        widths: Every width, per token on one device.
        score_bytes: Bytes per score that eager attention keeps, over `heads` heads; 0 where no scores are kept.
        heads: Query heads on one device.
    """

    terms: Terms
    widths: dict[str, float]
    score_bytes: int
    heads: int


def widths_of(layer: Layer, model: ModelSpec, setup: Setup) -> dict[str, float]:
    """Every width the terms may name, as one device holds it."""
    shape, mlp, ranks = layer.attention, layer.mlp, setup.division.tensor
    hidden = model.hidden_size
    routed = mlp.experts_per_token
    gathered = setup.parallel.sequence and ranks > 1
    return {
        "h": hidden,
        "r": ceil_div(hidden, ranks) if gathered else hidden,
        "q": ceil_div(shape.q_width, ranks),
        "k": ceil_div(shape.k_width, ranks),
        "v": ceil_div(shape.v_width, ranks),
        "o": ceil_div(shape.num_heads * shape.v_head_dim, ranks),
        "n": ceil_div(shape.num_heads, ranks),
        "nk": ceil_div(shape.num_kv_heads, ranks),
        "ql": shape.q_lora_rank,
        "kl": shape.kv_lora_rank,
        "w": ceil_div(sum(x.out_features for x in layer.linears if x.part is Part.ATTENTION), ranks),
        "i": ceil_div(mlp.intermediate_size, ranks),
        "si": ceil_div(mlp.shared_intermediate_size, ranks),
        "E": mlp.num_experts,
        "K": routed,
        "xh": routed * hidden,
        "xi": routed * ceil_div(mlp.intermediate_size, setup.division.expert_tensor),
        "rank": adapter_rank(setup.adapter) if setup.adapter else 0,
    }


def layer_form(layer: Layer, model: ModelSpec, setup: Setup) -> LayerForm:
    """What the layer keeps without checkpointing."""
    sites = layer_sites(layer, setup.adapter) if setup.adapter else ()
    kernels = frozenset(setup.training.kernels or ())
    eager = setup.training.attention == "eager" and layer.attention.kind not in RECURRENT
    parts = [_norms(layer, model, setup, fused="rms_norm" in kernels)]
    if layer.attention.kind is not AttentionKind.NONE:
        parts += _attention(layer, model, setup, sites, eager=eager)
    if layer.mlp.kind is not MlpKind.NONE:
        parts += _feed(layer, model, setup, sites, fused="swiglu" in kernels)
    if _has_residual_dropout(model, setup):
        parts.append(act.residual_dropout())
    dropped = bool(setup.training.dropout) and _has_residual_dropout(model, setup)
    scores = act.eager_scores(setup.compute_bytes, dropout=dropped) if eager else 0
    widths = widths_of(layer, model, setup)
    return LayerForm(add(*parts), widths, scores, int(widths["n"]) if eager else 0)


def _has_residual_dropout(model: ModelSpec, setup: Setup) -> bool:
    return bool(setup.training.dropout) and model.position_embedding in RESIDUAL_DROPOUT_POSITIONS


def norm_count(layer: Layer, model: ModelSpec) -> int:
    """Norms of the hidden size in a layer; two where they have no weights to count by."""
    each = model.hidden_size * (2 if model.norm == "layer_norm" else 1)
    found = layer.norm_params // each
    return found or (1 if model.parallel_residual else 2)


def has_head_norms(layer: Layer, model: ModelSpec) -> bool:
    """Whether queries and keys are normed: the layer has norm weights beyond whole hidden sizes."""
    return layer.attention.kind is not AttentionKind.MLA and layer.norm_params % model.hidden_size != 0


def norm_terms(model: ModelSpec, setup: Setup) -> Terms:
    """The final norm: like a layer's."""
    return _norm("h", model, setup, fused="rms_norm" in (setup.training.kernels or ()))


def _norm(x: str, model: ModelSpec, setup: Setup, *, fused: bool) -> Terms:
    if model.norm == "layer_norm":
        return act.layer_norm(x, res=setup.residual_bytes)
    return act.rms_norm(
        x,
        res=setup.residual_bytes,
        fused=fused,
        trained=setup.adapter is None,
        upcast_weight=model.model_type.startswith("gemma"),
    )


def _norms(layer: Layer, model: ModelSpec, setup: Setup, *, fused: bool) -> Terms:
    width = "r" if setup.parallel.sequence and setup.division.tensor > 1 else "h"
    total = scaled(_norm(width, model, setup, fused=fused), norm_count(layer, model))
    if has_head_norms(layer, model):
        heads = _norm("q", model, setup, fused=fused)
        keys = _norm("k", model, setup, fused=fused)
        for part in (heads, keys):
            part.pop("")
        total = add(total, heads, keys, {"n": 4, "nk": 4})
    if layer.attention.kind is AttentionKind.MLA:
        for latent in ("ql", "kl"):
            if latent == "kl" or layer.attention.q_lora_rank:
                total = add(total, _norm(latent, model, setup, fused=fused), {latent: setup.compute_bytes})
    return total


def _norm_output_bytes(model: ModelSpec, setup: Setup) -> int:
    return 4 if model.norm == "layer_norm" and setup.autocast else setup.residual_bytes


def _inputs(x: str, linears: Sequence[Linear], sites: Sequence[Linear], setup: Setup, given: int) -> Terms:
    """What linears that read one tensor keep of it."""
    if not linears and not sites:
        return {}
    e = setup.compute_bytes
    if setup.adapter is None:
        return act.shared_input(x, len(linears), given=given, e=e)
    kept: Terms = {}
    if setup.quantized_base and keeps_quantized_input(setup):
        kept = act.shared_input(x, len(linears), given=given, e=e)
    if not sites:
        return kept
    shape = {"dtype": setup.train_bytes, "e": e, "autocast": setup.autocast}
    dropout = bool(setup.adapter.dropout)
    inputs = act.adapter_input(x, len(sites), given=given, dropout=dropout, **shape)
    return add(kept, inputs, act.adapter_middle(len(sites), **shape))


def keeps_quantized_input(setup: Setup) -> bool:
    """Whether the 4-bit product keeps its input: bitsandbytes of 2023 and 2024 did (`MatMul4Bit.forward`)."""
    return setup.base in {"nf4", "nf4_dq"}


def _attention(
    layer: Layer, model: ModelSpec, setup: Setup, sites: Sequence[Linear], *, eager: bool
) -> list[Terms]:
    e, shape = setup.compute_bytes, layer.attention
    linears = [x for x in layer.linears if x.part is Part.ATTENTION]
    reads = [x for x in linears if x.in_features == model.hidden_size and x.split is not Split.ROW]
    outs = [x for x in linears if x.split is Split.ROW]
    own = [s for s in sites if s.part is Part.ATTENTION]
    given = _norm_output_bytes(model, setup)
    parts = [
        _inputs("h", reads, [s for s in own if s.split is not Split.ROW], setup, given),
        _attention_core(
            shape, e, eager=eager, kept=setup.keeps_outputs and not setup.checkpointed, setup=setup
        ),
    ]
    if setup.adapter is not None:
        out = _inputs("o", outs, [s for s in own if s.split is Split.ROW], setup, e)
        parts.append(_less(out, "o", e))
    if len(reads) == 1 and shape.kind not in RECURRENT and shape.kind is not AttentionKind.MLA:
        cached = setup.keeps_outputs and not setup.checkpointed
        parts.append(act.fused_projection_view(e, rotary=model.position_embedding == "rope", cached=cached))
    return parts


def _less(terms: Terms, symbol: str, e: int) -> Terms:
    """Without the share that is the attention's own output, which the attention already keeps."""
    return {**terms, symbol: max(0, terms[symbol] - e)} if terms.get(symbol, 0) % (2 * e) == e else terms


def _attention_core(shape: Attention, e: int, *, eager: bool, kept: bool, setup: Setup) -> Terms:
    repeats = shape.num_kv_heads != shape.num_heads and shape.kind is not AttentionKind.MLA
    if shape.kind in RECURRENT:
        return {"w": 2 * e, "o": e}
    if eager:
        return add(act.eager_attention(e, repeats=repeats), {"k": e, "v": e} if kept and repeats else {})
    if e == 4:
        return add(act.efficient_fp32_attention(repeats), {"k": 4, "v": 4} if kept and repeats else {})
    widened = {"k": 4.0} if kept and setup.autocast and setup.residual_bytes == 4 else {}
    return add(act.flash_attention(e), widened)


def _feed(
    layer: Layer, model: ModelSpec, setup: Setup, sites: Sequence[Linear], *, fused: bool
) -> list[Terms]:
    mlp = layer.mlp
    if mlp.kind is not MlpKind.MOE:
        return _dense(layer, model, setup, sites, Part.MLP, "i", fused=fused)
    parts = _routed(layer, model, setup, sites, fused=fused)
    if mlp.shared_intermediate_size:
        parts += _dense(layer, model, setup, sites, Part.SHARED_EXPERTS, "si", fused=fused)
    return parts


def _activation(model: ModelSpec, setup: Setup, *, gated: bool, width: str, fused: bool) -> Terms:
    e = setup.compute_bytes
    kept = (
        act.gated_mlp(e=e, fused=fused, one_tensor=model.hidden_act in act.ONE_TENSOR)
        if gated
        else act.plain_mlp(model.hidden_act, e=e, autocast=setup.autocast and setup.residual_bytes == 4)
    )
    return {width: kept["i"]}


def _dense(
    layer: Layer,
    model: ModelSpec,
    setup: Setup,
    sites: Sequence[Linear],
    part: Part,
    width: str,
    *,
    fused: bool,
) -> list[Terms]:
    linears = [x for x in layer.linears if x.part is part]
    own = [s for s in sites if s.part is part]
    ups = [x for x in linears if x.split is not Split.ROW]
    downs = [x for x in linears if x.split is Split.ROW]
    return [
        _inputs(
            "h", ups, [s for s in own if s.split is not Split.ROW], setup, _norm_output_bytes(model, setup)
        ),
        _activation(model, setup, gated=layer.mlp.gated, width=width, fused=fused),
        _inputs(width, downs, [s for s in own if s.split is Split.ROW], setup, setup.compute_bytes),
    ]


def _routed(
    layer: Layer, model: ModelSpec, setup: Setup, sites: Sequence[Linear], *, fused: bool
) -> list[Terms]:
    """Routed experts at balanced load: inputs gathered per expert, and outputs kept for the routing weights.

    The router keeps its input, the fp32 softmax over all experts, and the chosen weights and indices.
    """
    e = setup.compute_bytes
    own = [s for s in sites if s.part is Part.EXPERTS]
    trained = setup.adapter is None
    parts: list[Terms] = [
        {"E": 4 + e, "K": 16},
        {"h": e} if trained else {},
        _activation(model, setup, gated=layer.mlp.gated, width="xi", fused=fused),
        {"xh": e},
    ]
    if trained:
        return [*parts, {"xh": e, "xi": e}]
    ups = {s.name for s in own if s.split is not Split.ROW}
    downs = {s.name for s in own if s.split is Split.ROW}
    shape = {
        "given": e,
        "dtype": setup.train_bytes,
        "e": e,
        "autocast": setup.autocast,
        "dropout": bool(setup.adapter.dropout),
    }
    if ups:
        parts.append(act.adapter_input("xh", len(ups), **shape))
    if downs:
        parts.append(act.adapter_input("xi", len(downs), **shape))
    return parts
