"""One layer's saved tensors on the Hugging Face eager path, put together from `activations` by what the layer is."""

from planner.memory import activations as act
from planner.memory.adapters import layer_sites
from planner.memory.layer_adapters import adapter_masks, kept_inputs, scaled_outputs
from planner.memory.layer_attention import attention, caps_scores, multiplies_in_fp32, upcasts_softmax
from planner.memory.layer_feed import feed_inside, feed_kept, feeds_untrained
from planner.memory.layer_norms import all_norms, last_norm, later_norms, norm_count, norm_terms
from planner.memory.layer_selective import exchanged, kept_between, made_again
from planner.memory.layer_view import LayerForm, View, widths_of
from planner.memory.terms import Terms, add, scaled
from planner.model.spec import AttentionKind, Layer, MlpKind, ModelSpec, Part, Split
from planner.training.setup import Setup, fused_kernels


def layer_form(layer: Layer, model: ModelSpec, setup: Setup, *, stream: bool = True) -> LayerForm:
    """What the layer keeps without checkpointing.

    Args:
        layer: The layer.
        model: The model.
        setup: The step.
        stream: Whether the layer's input needs a gradient; not so for the first layer above a frozen embedding.
    """
    sites = layer_sites(layer, setup.adapter) if setup.adapter else ()
    view = View(layer, model, setup, sites, fused_kernels(setup), stream)
    eager = view.makes_scores
    parts = [all_norms(view)]
    if layer.attention.kind is not AttentionKind.NONE:
        parts += attention(view, eager=eager)
    if layer.mlp.kind is not MlpKind.NONE and not feeds_untrained(view):
        parts += feed_kept(view)
    parts.append(_read_twice(view))
    widths = widths_of(layer, model, setup)
    if setup.adapter is not None and setup.adapter.method == "dora":
        widths["y"] = scaled_outputs(view)
        parts.append(act.scaled_results(setup.train_bytes, e=setup.compute_bytes, autocast=setup.autocast))
    ends = last_norm(view)
    masks = act.residual_dropout() if has_residual_dropout(model, setup) else {}
    total = add(*parts)
    between = kept_between(view, total, widths)
    again = made_again(view, total, between) if between is not None else {}
    if setup.training.checkpointing == "selective_op":
        again = add(again, {view.residual: setup.residual_bytes}, exchanged(setup))
    if not eager or not view.heads:
        return LayerForm(
            total, widths, 0, 0,
            masks=masks, adapter_masks=adapter_masks(view), between=between, again=again, ends=ends,
            piece=feed_inside(view),
        )  # fmt: skip
    e, upcast, dropout = setup.compute_bytes, upcasts_softmax(model, setup), bool(setup.training.dropout)
    return LayerForm(
        total,
        widths,
        act.eager_scores(e, upcast=upcast, dropout=dropout) + (e if caps_scores(model) else 0),
        int(widths["n"]),
        masks=masks,
        adapter_masks=adapter_masks(view),
        masks_scores=dropout,
        score_gradients=act.eager_score_gradients(
            e, upcast=upcast, half=setup.training.precision.compute == "fp16" and not multiplies_in_fp32(view)
        ),
        between=between,
        again=again,
        behind=add(_after_softmax(view), scaled(ends, -1)),
        ends=ends,
        piece=feed_inside(view),
    )


def _after_softmax(view: View) -> Terms:
    """What the output projection, the later norms and the feed-forward part keep."""
    layer, model = view.layer, view.model
    _, outs = view.linears(Part.ATTENTION)
    _, out_sites = view.adapted(Part.ATTENTION)
    parts = [scaled(norm_terms(model, view.setup, view.residual), later_norms(view))]
    if layer.mlp.kind is not MlpKind.NONE and not feeds_untrained(view):
        parts += [*feed_kept(view), _read_twice(view)]
    reads, _ = view.linears(Part.ATTENTION)
    fused = len(reads) == 1 and layer.attention.kind is not AttentionKind.MLA
    e, copied = view.setup.product_bytes, view.setup.batch > 1
    if fused and model.position_embedding == "rope" and not view.cached:
        parts.append(act.fused_projection_view(e, rotary=True, cached=False, copied=copied))
    elif fused and not copied and not view.cached:
        parts.append(
            {"v": -e}
        )  # the values' gradient comes, and they stay as a part of what the keys are a view of
    kept = kept_inputs(view, "o", outs, out_sites, view.setup.compute_bytes)
    return add(*parts, kept, _later_masks(view))


def _later_masks(view: View) -> Terms:
    """Masks of the adapters' dropout on the output projection and in a dense feed-forward part."""
    if view.setup.adapter is None or not view.setup.adapter.dropout or view.layer.mlp.kind is MlpKind.MOE:
        return {}
    _, outs = view.adapted(Part.ATTENTION)
    ups, downs = view.adapted(Part.MLP)
    return {"o": len(outs), "h": len(ups), "i": len(downs)}


def _read_twice(view: View) -> Terms:
    """What both parts of a parallel block keep uncast of the one norm's output that they read is one tensor."""
    setup, e, given = view.setup, view.setup.compute_bytes, view.norm_output_bytes
    if not view.model.parallel_residual or norm_count(view.layer, view.model) != 1 or setup.megatron:
        return {}
    if setup.adapter is None:
        return {"h": -e} if given == e else {}
    shares = act.adapter_shares(
        given=given, dtype=setup.train_bytes, e=e, autocast=setup.autocast, packed=setup.quantized_base
    )
    both = all(
        any(x.part is part and x.split is not Split.ROW for x in view.sites)
        for part in (Part.ATTENTION, Part.MLP)
    )
    return {"h": -e} if both and shares and not setup.adapter.dropout else {}


def has_residual_dropout(model: ModelSpec, setup: Setup) -> bool:
    """GPT-2's generation drops out after attention and MLP; later families have no such layers."""
    return bool(setup.training.dropout) and model.position_embedding == "learned"
