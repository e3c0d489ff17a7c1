"""LitGPT's own layers: what one layer keeps, read off its `model.py`, `lora.py`, `adapter.py` and `adapter_v2.py`.

Checked against traced steps of litgpt 0.4.13 (LoRA and full; Llama-2, TinyLlama, Phi-2, Gemma-2): one fused matrix for
query, key and value; keys and values copied for every query head before attention; norms that multiply in fp32.
"""

from collections.abc import Sequence
from typing import Final

from planner.memory import activations as act
from planner.memory.adapters import adapter_rank, layer_sites, role_of
from planner.memory.layer_adapters import adapter_masks, kept_inputs
from planner.memory.layer_feed import activation, feed
from planner.memory.layer_norms import norm_count
from planner.memory.layer_view import LayerForm, View, widths_of
from planner.memory.terms import Terms, add, scaled
from planner.model.spec import AttentionKind, Layer, Linear, MlpKind, ModelSpec, Part
from planner.training.setup import Setup

CAPS_SCORES: Final = frozenset({"gemma2"})
"""Model types with a soft cap on attention scores, which LitGPT composes step by step instead of calling a kernel."""
PROMPTS: Final = frozenset({"adaption_prompt", "adaption_prompt_v2"})
PARTS: Final = frozenset({"q", "k", "v"})
KEEPS_INPUTS: Final = frozenset({2023, 2024})
"""Years of LitGPT whose bitsandbytes (0.41, 0.42) keeps the input of a 4-bit product."""


def litgpt_form(layer: Layer, model: ModelSpec, setup: Setup, *, stream: bool = True) -> LayerForm:
    """What the layer keeps without checkpointing; `stream`: whether its input needs a gradient."""
    view = View(layer, model, setup, _sites(layer, setup), frozenset(), stream)
    reaches = stream or any(site.part is Part.ATTENTION for site in view.sites)
    capped = model.model_type in CAPS_SCORES and reaches
    composed = reaches and composes_attention(layer, setup)
    parts = [_norms(view, reaches=reaches)]
    if reaches and layer.attention.kind is not AttentionKind.NONE:
        parts += _attention(view, capped=capped, composed=composed)
    if layer.mlp.kind is MlpKind.MOE:
        parts += feed(view)
    elif layer.mlp.kind is not MlpKind.NONE:
        parts += _dense(view)
    if scales_outputs(setup):
        parts.append(_scaled_outputs(view))
    parts.append(packed_inputs(view))
    widths, masks, e = widths_of(layer, model, setup), adapter_masks(view), setup.compute_bytes
    if not capped and not composed:
        return LayerForm(add(*parts), widths, 0, 0, adapter_masks=masks)
    return LayerForm(
        add(*parts),
        widths,
        capped_scores(e) if capped else e,
        int(widths["n"]),
        adapter_masks=masks,
        score_gradients=act.eager_score_gradients(e, upcast=capped),
    )


def untouched_form(layer: Layer, model: ModelSpec, setup: Setup) -> LayerForm:
    """A layer below the first one an adapter acts on: no gradient gets there, so nothing is kept."""
    return LayerForm({}, widths_of(layer, model, setup), 0, 0)


def untouched_layers(setup: Setup, num_layers: int) -> int:
    """Layers below the first that LLaMA-Adapter acts on; its second version trains every layer's norms and scales."""
    adapter = setup.adapter
    if (
        setup.runtime != "litgpt"
        or adapter is None
        or adapter.method != "adaption_prompt"
        or setup.checkpointed
    ):
        return 0
    return max(0, num_layers - (adapter.layers or num_layers))


def scales_outputs(setup: Setup) -> bool:
    """LLaMA-Adapter's second version: every matrix's output gets a trained bias and scale, every norm is trained."""
    return setup.adapter is not None and setup.adapter.method == "adaption_prompt_v2"


def longest_first(setup: Setup) -> bool:
    """LitGPT of 2023 puts the longest sample into the first micro-batch (`longest_seq_ix`), random ones after it."""
    return setup.runtime == "litgpt" and setup.version[:1] == (2023,)


def packs(setup: Setup) -> bool:
    """Whether 4-bit products keep what they read."""
    year = setup.version[0] if setup.version else 0
    return setup.runtime == "litgpt" and setup.base in {"nf4", "nf4_dq"} and year in KEEPS_INPUTS


def packed_inputs(view: View) -> Terms:
    """Inputs of 4-bit products: both norms' outputs, attention's output as a row, the feed-forward product.

    bitsandbytes `MatMul4Bit.forward` holds its input as an attribute of the graph's node (`ctx.tensors = (A, B)`), for
    nothing, where it needs a gradient; matrices that read one tensor share it.
    """
    setup, e = view.setup, view.setup.compute_bytes
    if not packs(setup):
        return {}
    norms = (1 if view.stream else 0) + (0 if _one_norm(view) else 1)
    if view.layer.mlp.kind is MlpKind.MOE:
        return {"h": norms * e, "o": e, "xh": e, "xi": e}
    return {"h": norms * e, "o": e, "i": e}


def composes_attention(layer: Layer, setup: Setup) -> bool:
    """LitGPT of 2023 left the one key and value of multi-query attention as it was, which no fused kernel takes.

    `CausalSelfAttention.forward`: `if n_query_groups != 1` before the copies; later versions copy for training.
    PyTorch's composed form (`_scaled_dot_product_attention_math`) keeps the scaled query and key and the softmax.
    """
    shape = layer.attention
    return longest_first(setup) and shape.num_kv_heads == 1 and shape.num_heads > 1


def capped_scores(e: int) -> int:
    """Bytes a score: the cap's tanh, the fp32 softmax and its cast."""
    return e + act.eager_scores(e, upcast=True, dropout=False)


def _sites(layer: Layer, setup: Setup) -> tuple[Linear, ...]:
    adapter = setup.adapter
    return layer_sites(layer, adapter) if adapter is not None and adapter.method not in PROMPTS else ()


def _norms(view: View, *, reaches: bool) -> Terms:
    """`RMSNorm` works in fp32 and multiplies by the weight there: a trained one keeps what it multiplies.

    The two layer norms of a parallel block read one tensor.
    """
    setup = view.setup
    trained = setup.adapter is None or scales_outputs(setup)
    if view.model.norm == "layer_norm":
        one = act.layer_norm("h", res=setup.residual_bytes)
    else:
        one = act.rms_norm(
            "h",
            res=setup.residual_bytes,
            fused=False,
            trained=trained,
            upcast_weight=setup.residual_bytes < 4,
        )
    count = norm_count(view.layer, view.model)
    skipped = 0 if view.stream else 1 if reaches else 2
    total = scaled(one, max(0, count - skipped))
    if view.model.parallel_residual and view.model.norm == "layer_norm" and count > 1 and not skipped:
        total["h"] -= (count - 1) * setup.residual_bytes
    return total


def _attention(view: View, *, capped: bool, composed: bool) -> list[Terms]:
    setup, e, shape = view.setup, view.setup.compute_bytes, view.layer.attention
    reads, outs = view.linears(Part.ATTENTION)
    sites, out_sites = view.adapted(Part.ATTENTION)
    first = reads[:1]
    grouped = shape.num_kv_heads != shape.num_heads and not composed
    heads: Terms = {"q": 2 * e, "o": e} if grouped else {"q": 2 * e, "k": 2 * e, "v": e}
    parts: list[Terms] = [
        kept_inputs(view, "h", first, sites, view.norm_output_bytes),
        heads,
        {} if capped or composed else {"o": e, "n": 4},
        kept_inputs(view, "o", outs, out_sites, e) if setup.adapter is not None else {"o": e},
        _padded(view, sites),
    ]
    own_output: Terms = {"o": e}
    own_core: Terms = {"o": e, "n": 4}
    if setup.adapter is not None and out_sites and not setup.adapter.dropout:
        parts.append(own_output)
    if setup.adapter is not None and setup.adapter.method in PROMPTS:
        parts.append(own_core)
    return parts


def _padded(view: View, sites: Sequence[Linear]) -> Terms:
    """One adapter makes the enabled ones of query, key and value and spreads them over the fused output.

    `LoRAQKVLinear.zero_pad`: `index_copy_` keeps what it copies, unless all three are enabled. The rank-wide middle is
    as many times as wide.
    """
    if not sites or view.setup.adapter is None:
        return {}
    enabled = PARTS & {role_of(site) for site in view.sites if site.part is Part.ATTENTION}
    e, more = view.setup.compute_bytes, max(0, len(enabled) - 1)
    middle: Terms = {"rank": e * more} if more and adapter_rank(view.setup.adapter) else {}
    if not enabled or enabled == PARTS:
        return middle
    copied: Terms = dict.fromkeys(sorted(enabled), e)
    return add(middle, copied)


def _dense(view: View) -> list[Terms]:
    ups, downs = view.linears(Part.MLP)
    up_sites, down_sites = view.adapted(Part.MLP)
    e, shares = view.setup.compute_bytes, view.setup.adapter is None and _one_norm(view)
    return [
        {} if shares else kept_inputs(view, "h", ups, up_sites, view.norm_output_bytes),
        activation(view, "i", e),
        kept_inputs(view, "i", downs, down_sites, e),
    ]


def _one_norm(view: View) -> bool:
    """Attention and feed-forward part read one norm's output (`shared_attention_norm`)."""
    return view.model.parallel_residual and norm_count(view.layer, view.model) == 1


def _scaled_outputs(view: View) -> Terms:
    """`AdapterV2Linear`: scale times (product plus bias) keeps the sum, as wide as the product's output."""
    e, ups = view.setup.compute_bytes, 2 if view.layer.mlp.gated else 1
    return {"q": e, "k": e, "v": e, "h": 2 * e, "i": ups * e}
