"""One layer's saved tensors on the Hugging Face eager path, put together from `activations` by what the layer is."""

from collections.abc import Sequence
from typing import Final

from planner.memory import activations as act
from planner.memory.adapters import layer_sites
from planner.memory.layer_view import RECURRENT, LayerForm, View, expert_bytes, groups_experts, widths_of
from planner.memory.terms import Terms, add, scaled
from planner.model.spec import AttentionKind, Layer, Linear, MlpKind, ModelSpec, Part, Split
from planner.training.setup import Setup, fused_kernels
from planner.units import ceil_div

MISTRAL_LIKE: Final = frozenset({"mistral", "mixtral", "qwen2", "qwen2_moe", "starcoder2"})
COMPOSES_GELU: Final = frozenset({"generic", "hf_trainer", "transformers", "deepspeed", "unsloth"})
"""Runtimes that run transformers' classes, where `gelu_new` is put together from single steps."""
CENTRES: Final = frozenset({"cohere", "cohere2"})
"""Classes whose layer norm is put together from single steps (`CohereLayerNorm`)."""
CATS_HEADS: Final = frozenset({"phi3", "phi", "gpt_neox", "gptj", "stablelm", "glm", "glm4", "persimmon"})
"""Classes whose `apply_rotary_pos_emb` rotates a part of each head."""
WIDE_HEAD_NORMS: Final = frozenset({"olmo2", "olmo3", "olmoe"})
"""Classes that norm queries and keys over all heads at once, as they come from their products."""
COMBINES_IN_FP32: Final = frozenset({"torchtitan"})
"""Runtimes that weight the routed tokens in fp32, which keeps that copy (torchtitan `MoE.forward`)."""
NORMS_AFTER: Final = frozenset({
    *("gemma2", "gemma3", "gemma3_text", "glm4", "olmo2", "olmo3", "exaone4"),
})  # fmt: skip
"""Classes with a norm after the attention and one after the feed-forward part (`post_feedforward_layernorm`)."""
NORMS_NOT_BEFORE: Final = frozenset({"olmo2", "olmo3", "exaone4"})
"""Those of them without norms before the two."""
WIDE_SCORES: Final = frozenset({"gptj", "codegen", "gpt_neo"})
"""Classes whose eager attention multiplies queries and keys in fp32."""
FP32_ROUTERS: Final = frozenset({"deepseek_v2", "deepseek_v3", "glm4_moe"})
"""Classes whose router multiplies in fp32, with a copy of its input (`hidden_states.type(torch.float32)`)."""
PLAIN_SOFTMAX: Final = frozenset({
    *("albert", "bart", "bert", "biogpt", "blenderbot", "camembert", "deberta", "distilbert", "electra", "ernie"),
    *("gpt2", "gpt_neo", "llama4", "llama4_text", "marian", "mbart", "mobilebert", "pegasus", "plbart"),
    *("roberta", "xglm", "xlm-roberta", "xlm_roberta", "xlm-roberta-xl"),
})  # fmt: skip
"""Classes whose eager attention leaves the softmax in its input's format; all others ask for fp32."""
FLASH_REPEATS_BEFORE: Final = (4, 48)


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
    parts = [_norms(view)]
    if layer.attention.kind is not AttentionKind.NONE:
        parts += _attention(view, eager=eager)
    if layer.mlp.kind is not MlpKind.NONE and not _feeds_untrained(view):
        parts += _feed_kept(view)
    parts.append(_read_twice(view))
    widths = widths_of(layer, model, setup)
    if setup.adapter is not None and setup.adapter.method == "dora":
        widths["y"] = scaled_outputs(view)
        parts.append(act.scaled_results(setup.train_bytes, e=setup.compute_bytes, autocast=setup.autocast))
    ends = _last_norm(view)
    masks = act.residual_dropout() if has_residual_dropout(model, setup) else {}
    total = add(*parts)
    between = kept_between(view, total, widths)
    again = add(total, scaled(between, -1)) if between is not None else {}
    if setup.training.checkpointing == "selective_op":
        again = add(again, {view.residual: setup.residual_bytes})
    if not eager or not view.heads:
        return LayerForm(
            total, widths, 0, 0,
            masks=masks, adapter_masks=adapter_masks(view), between=between, again=again, ends=ends,
            piece=_feed_inside(view),
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
            e, upcast=upcast, half=setup.training.precision.compute == "fp16" and not _wide_scores(view)
        ),
        between=between,
        again=again,
        behind=add(_after_softmax(view), scaled(ends, -1)),
        ends=ends,
        piece=_feed_inside(view),
    )


def _feed_kept(view: View) -> list[Terms]:
    """What the feed-forward part keeps: its input alone where each piece of the sequence is computed again."""
    return feed(view) if view.setup.chunks == 1 else [{"h": view.norm_output_bytes}]


def _feed_inside(view: View) -> Terms:
    """What it keeps of the piece in work."""
    if view.setup.chunks == 1 or view.layer.mlp.kind is MlpKind.NONE:
        return {}
    return {x: c for x, c in add(*feed(view)).items() if x != "h"}


def _last_norm(view: View) -> Terms:
    """The norm after the feed-forward part, which the backward pass begins with."""
    if view.model.model_type not in NORMS_AFTER or view.setup.megatron:
        return {}
    return norm_terms(view.model, view.setup, view.residual)


def _after_softmax(view: View) -> Terms:
    """What the output projection, the later norms and the feed-forward part keep."""
    layer, model = view.layer, view.model
    _, outs = view.linears(Part.ATTENTION)
    _, out_sites = view.adapted(Part.ATTENTION)
    parts = [scaled(norm_terms(model, view.setup, view.residual), _later_norms(view))]
    if layer.mlp.kind is not MlpKind.NONE and not _feeds_untrained(view):
        parts += [*_feed_kept(view), _read_twice(view)]
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


def _wide_scores(view: View) -> bool:
    """Whether queries and keys are widened for their product, which is then in fp32 (`GPTJAttention._attn`)."""
    setup = view.setup
    wide = view.model.model_type in WIDE_SCORES and setup.runtime in COMPOSES_GELU
    return wide and view.makes_scores and setup.compute_bytes < 4 and not setup.autocast


def _later_norms(view: View) -> int:
    """Norms of the hidden size that follow the attention."""
    layer, model = view.layer, view.model
    before = 0 if model.model_type in NORMS_NOT_BEFORE else 1
    wide = 2 if model.model_type in WIDE_HEAD_NORMS else 0
    return max(0, norm_count(layer, model) - before - wide)


def _feeds_untrained(view: View) -> bool:
    """Whether nothing before or in the feed-forward part of a parallel block is trained, so that it keeps nothing."""
    sites = (x for x in view.sites if x.part is not Part.ATTENTION)
    return not view.stream and view.model.parallel_residual and not any(sites)


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


def kept_between(view: View, total: Terms, widths: dict[str, float]) -> Terms | None:
    """What selective checkpointing leaves of a layer until its backward pass, None where it leaves everything.

    Args:
        view: The layer.
        total: What it keeps without checkpointing.
        widths: Its widths; the one of kept products (`m`) is added.
    """
    share = view.setup.keeps_frac
    if share < 1:
        stored: Terms = {view.residual: view.setup.residual_bytes}
        return add(scaled(total, share), scaled(stored, 1 - share))
    if view.layer.attention.kind in RECURRENT:
        return None
    match view.setup.training.checkpointing:
        case "selective_attention":
            return add(total, scaled(_core(view, eager=view.makes_scores), -1), _attention_inputs(view))
        case "selective_op":
            widths["m"] = kept_products(view)
            return _kept_by_op(view)
    return None


def _attention_inputs(view: View) -> Terms:
    """What a checkpoint around the attention function keeps, and its output where only the kernel had kept that.

    Rotary positions in fp32 make fp32 queries and keys, which are cast inside.
    """
    setup, e = view.setup, view.setup.compute_bytes
    rotates = setup.autocast and view.model.position_embedding == "rope"
    widened = setup.residual_bytes if rotates else setup.product_bytes
    inputs: Terms = {"q": widened, "k": widened, "v": setup.product_bytes} if view.heads else {}
    _, outs = view.linears(Part.ATTENTION)
    _, out_sites = view.adapted(Part.ATTENTION)
    whole = setup.adapter is None
    kernel = not view.makes_scores and not copies_output(view)
    alone = bool(outs) and kernel if whole else bool(out_sites) and shares_output(view)
    return add(inputs, {"o": e}) if alone else inputs


def _kept_by_op(view: View) -> Terms:
    """The layer's input, every second product's output and a fused attention's (torchtitan `_get_custom_policy`)."""
    setup, e = view.setup, view.setup.compute_bytes
    kept: Terms = {view.residual: setup.residual_bytes, "m": e}
    return kept if view.makes_scores or not view.heads else add(kept, {"o": e, "n": 4})


def kept_products(view: View) -> int:
    """Elements per token that every second matrix product of a layer puts out, as one device holds them.

    Only plain products count (`aten.mm`): those with a bias are one operator with it, and grouped experts are another.
    """
    ranks, products = (
        view.setup.division.tensor,
        (x for x in view.layer.linears if x.part is not Part.EXPERTS and not x.bias_features),
    )
    return sum(
        x.out_features if x.split is Split.ROW else ceil_div(x.out_features, ranks)
        for number, x in enumerate(products)
        if number % 2 == 0
    )


def scaled_outputs(view: View) -> int:
    """Outputs per token of the matrices with an adapter, as one device holds them; routed experts for each visit."""
    ranks, visits = view.setup.division.tensor, view.layer.mlp.experts_per_token
    found = ((site, visits if site.part is Part.EXPERTS else 1) for site in view.sites)
    return sum(
        times * (site.out_features if site.split is Split.ROW else ceil_div(site.out_features, ranks))
        for site, times in found
    )


def caps_scores(model: ModelSpec) -> bool:
    """Whether scores pass a tanh, whose output is kept: Gemma 2's class, whose `attn_logit_softcapping` is on."""
    return model.model_type == "gemma2"


def upcasts_softmax(model: ModelSpec, setup: Setup) -> bool:
    """Whether eager attention makes an fp32 softmax of 16-bit scores; autocast always does."""
    return setup.compute_bytes == 4 or setup.autocast or model.model_type not in PLAIN_SOFTMAX


def has_residual_dropout(model: ModelSpec, setup: Setup) -> bool:
    """GPT-2's generation drops out after attention and MLP; later families have no such layers."""
    return bool(setup.training.dropout) and model.position_embedding == "learned"


def norm_count(layer: Layer, model: ModelSpec) -> int:
    """Norms of the hidden size in a layer; two (one in parallel blocks) where they have no weights to count by."""
    each = model.hidden_size * (2 if model.norm == "layer_norm" else 1)
    return layer.norm_params // each or (1 if model.parallel_residual else 2)


def has_head_norms(layer: Layer, model: ModelSpec) -> bool:
    """Whether queries and keys are normed: the layer has norm weights beyond whole hidden sizes."""
    return layer.attention.kind is not AttentionKind.MLA and layer.norm_params % model.hidden_size != 0


def norm_terms(model: ModelSpec, setup: Setup, x: str = "h", res: int | None = None) -> Terms:
    """One norm over width `x`, its output left out; `res` bytes an element that it reads, the stream's if not given."""
    res = setup.residual_bytes if res is None else res
    if model.model_type in CENTRES and setup.runtime in COMPOSES_GELU:
        return act.centred_norm(x, trained=setup.adapter is None)
    if model.norm == "layer_norm":
        return act.layer_norm(x, res=4 if setup.autocast else res)
    return act.rms_norm(
        x,
        res=res,
        fused="rms_norm" in fused_kernels(setup),
        trained=setup.adapter is None,
        upcast_weight=model.model_type.startswith("gemma"),
    )


def _norms(view: View) -> Terms:
    """All norms of a layer; the first input of a fused kernel is the one that checkpointing has stored already.

    The two layer norms of a parallel block keep one tensor, where autocast does not cast it for each.
    """
    layer, model, setup = view.layer, view.model, view.setup
    count = norm_count(layer, model)
    if not view.stream:
        count -= count if model.parallel_residual else 1
    total = scaled(norm_terms(model, setup, view.residual), count)
    given = not setup.autocast or setup.residual_bytes == 4
    if model.parallel_residual and model.norm == "layer_norm" and count > 1 and given:
        total[view.residual] -= (count - 1) * setup.residual_bytes
    if "rms_norm" in view.kernels and setup.checkpointed and model.norm != "layer_norm":
        total[view.residual] -= setup.residual_bytes
    if model.model_type in WIDE_HEAD_NORMS and setup.runtime in COMPOSES_GELU:
        total[view.residual] -= 2 * (setup.residual_bytes - setup.product_bytes)
    if has_head_norms(layer, model):
        made = setup.product_bytes
        heads, keys = norm_terms(model, setup, "q", made), norm_terms(model, setup, "k", made)
        total = add(total, {"q": heads["q"], "n": heads[""], "k": keys["k"], "nk": keys[""]})
    if layer.attention.kind is AttentionKind.MLA:
        for latent in ("ql", "kl") if layer.attention.q_lora_rank else ("kl",):
            total = add(total, norm_terms(model, setup, latent), {latent: setup.compute_bytes})
    return total


def kept_inputs(view: View, x: str, linears: Sequence[Linear], sites: Sequence[Linear], given: int) -> Terms:
    """What matrices that read one tensor of width `x` keep of it."""
    setup = view.setup
    if setup.adapter is None:
        return act.shared_input(x, len(linears), given=given, e=setup.compute_bytes) if linears else {}
    return _adapter_inputs(view, x, sites, given) if sites else {}


def _adapter_inputs(view: View, x: str, sites: Sequence[Linear], given: int) -> Terms:
    setup, e = view.setup, view.setup.compute_bytes
    dropout = bool(setup.adapter and setup.adapter.dropout)
    middle = act.adapter_middle(len(sites), dtype=setup.train_bytes, e=e, autocast=setup.autocast)
    if "lora_attention" in view.kernels and x in {"h", "o"} and sites[0].part is Part.ATTENTION:
        return add(middle, act.fused_adapter_input(x, len(sites), e=e, dropout=dropout))
    inputs = act.adapter_input(
        x,
        len(sites),
        given=given,
        dtype=setup.train_bytes,
        e=e,
        autocast=setup.autocast,
        dropout=dropout,
        packed=setup.quantized_base,
    )
    return middle if x == "o" and shares_output(view) else add(middle, inputs)


def shares_output(view: View) -> bool:
    """Whether an adapter on the output projection reads what a fused attention keeps by itself."""
    setup, e = view.setup, view.setup.compute_bytes
    dropout = bool(setup.adapter and setup.adapter.dropout)
    shares = act.adapter_shares(
        given=e, dtype=setup.train_bytes, e=e, autocast=setup.autocast, packed=setup.quantized_base
    )
    return shares and not dropout and not view.makes_scores and not copies_output(view)


def copies_output(view: View) -> bool:
    """Whether a fused attention's output lies as its heads do, so that the output projection gets a copy.

    The kernel makes it as the query lies (`at::empty_like(q)`); rotary positions on a part of each head put the query
    together anew (`torch.cat`), heads before tokens, where others leave it as the projection made it.
    """
    rotates = view.model.model_type in CATS_HEADS and view.model.position_embedding == "rope"
    flash = not view.makes_scores and view.setup.compute_bytes < 4
    return rotates and flash and view.setup.runtime in COMPOSES_GELU


def adapter_masks(view: View) -> Terms:
    """One byte an element of every adapter's dropped input; fused adapter kernels keep none."""
    adapter = view.setup.adapter
    if adapter is None or not adapter.dropout:
        return {}
    moe = view.layer.mlp.kind is MlpKind.MOE
    sources = ((Part.ATTENTION, "h", "o"), (Part.EXPERTS, "xh", "xi") if moe else (Part.MLP, "h", "i"))
    masks: Terms = {}
    for part, reads, ends in sources:
        if part is Part.ATTENTION and "lora_attention" in view.kernels:
            continue
        sites, out_sites = view.adapted(part)
        masks = add(masks, {reads: len(sites), ends: len(out_sites)})
    return {x: count for x, count in masks.items() if count}


def _attention(view: View, *, eager: bool) -> list[Terms]:
    e, shape, model = view.setup.compute_bytes, view.layer.attention, view.model
    reads, outs = view.linears(Part.ATTENTION)
    sites, out_sites = view.adapted(Part.ATTENTION)
    first = [x for x in reads if x.in_features == model.hidden_size]
    fuses = view.fuses_qkv
    if fuses:
        first = first[:1]
    parts = [kept_inputs(view, "h", first, sites, view.norm_output_bytes), _core(view, eager=eager)]
    if view.setup.adapter is not None or eager or copies_output(view):
        parts.append(kept_inputs(view, "o", outs, out_sites, e))
    if (fuses or len(reads) == 1) and shape.kind not in RECURRENT and shape.kind is not AttentionKind.MLA:
        rotary = model.position_embedding == "rope"
        copied = eager and view.setup.batch > 1
        parts.append(
            act.fused_projection_view(
                view.setup.product_bytes, rotary=rotary, cached=view.cached, copied=copied
            )
        )
    parts.append(_latent_values(view))
    return parts


def _latent_values(view: View) -> Terms:
    """Values of a latent attention are a view of what their matrix put out, with the keys' part without positions."""
    shape, setup = view.layer.attention, view.setup
    viewed = setup.runtime in COMPOSES_GELU and not view.cached and not view.makes_scores and bool(view.heads)
    if shape.kind is not AttentionKind.MLA or not viewed:
        return {}
    return {"n": setup.product_bytes * (shape.head_dim - shape.qk_rope_head_dim)}


def _core(view: View, *, eager: bool) -> Terms:
    shape, e, setup = view.layer.attention, view.setup.compute_bytes, view.setup
    if shape.kind in RECURRENT:
        return {"w": 2 * e, "o": e}
    repeats = shape.num_kv_heads != shape.num_heads and shape.kind is not AttentionKind.MLA
    if eager and shape.num_kv_heads == 1 and setup.batch == 1:
        repeats = False  # one head of one sequence is read as all of them without a copy
    cache: Terms = {"k": e, "v": e} if view.cached and repeats else {}
    if eager and view.cached:
        cache = add(cache, _widened_keys(view, 4 - e if repeats else 4))
    if not view.heads:
        return cache
    if eager:
        wide: Terms = {"q": 4 - e, "k": 4 - e} if _wide_scores(view) else {}
        return add(act.eager_attention(e, repeats=repeats, trained=view.heads), wide, cache)
    if e == 4:
        return add(act.efficient_fp32_attention(repeats=repeats), cache)
    if repeats and repeats_keys(view.model.model_type, setup):
        return add(act.eager_attention(e, repeats=True), {"o": e, "n": 4})
    return add(act.flash_attention(e), _widened_keys(view, 4), _masked(view, repeats=repeats))


def _masked(view: View, *, repeats: bool) -> Terms:
    """A window shorter than the sequence needs a mask, which every layer casts, and keys repeated for every query head.

    No fused kernel of sdpa groups queries under a mask (transformers `sdpa_mask`, `use_gqa_in_sdpa`). `u`: mask entries
    per token, one row of the batch serves all.
    """
    setup, window = view.setup, view.layer.attention.window
    hf = setup.runtime in {"generic", "hf_trainer"} and (not setup.version or setup.version >= (5,))
    if setup.training.attention != "sdpa" or not hf or not window or window >= setup.sequence:
        return {}
    again: Terms = {"q": setup.compute_bytes, "o": setup.compute_bytes} if repeats else {}
    return add(again, {"u": setup.compute_bytes})


def _widened_keys(view: View, more: int) -> Terms:
    """Rotary positions in fp32 leave the cache an fp32 key beside the one attention casts to 16 bit.

    Packed matrices, which hand over fp32, leave it an fp32 value as well.
    """
    setup = view.setup
    if not view.cached or not setup.autocast or setup.residual_bytes != 4:
        return {}
    if setup.product_bytes > setup.compute_bytes:
        return {"k": more, "v": more}
    return {"k": more} if view.model.position_embedding == "rope" else {}


def repeats_keys(model_type: str, setup: Setup) -> bool:
    """Whether keys and values are copied for every query head before a kernel that would not need it.

    transformers before 4.48 did so for sdpa, and for flash in the classes that descend from Mistral's.
    """
    if setup.runtime != "hf_trainer" or not setup.version or setup.version >= FLASH_REPEATS_BEFORE:
        return False
    return setup.training.attention == "sdpa" or model_type in MISTRAL_LIKE


def feed(view: View) -> list[Terms]:
    """What a dense or a routed feed-forward part keeps."""
    if view.layer.mlp.kind is not MlpKind.MOE:
        return _dense(view, Part.MLP, "i")
    parts = _routed(view)
    if view.layer.mlp.shared_intermediate_size:
        parts += _dense(view, Part.SHARED_EXPERTS, "si")
    return parts


def activation(view: View, width: str, e: int) -> Terms:
    """What the activation between the matrices keeps, over one width."""
    setup, model = view.setup, view.model
    if view.layer.mlp.gated:
        one = model.hidden_act in act.ONE_TENSOR
        kept = act.gated_mlp(e=e, fused="swiglu" in view.kernels, one_tensor=one)
    else:
        widened = setup.autocast
        name = model.hidden_act if setup.runtime in COMPOSES_GELU else act.fused_name(model.hidden_act)
        kept = act.plain_mlp(name, e=e, autocast=widened, read=_reads_product(view))
    return {width: kept["i"]}


def _reads_product(view: View) -> bool:
    """Whether the matrix after the activation, or its adapter, keeps the very tensor that the activation put out."""
    setup = view.setup
    if setup.adapter is None:
        return True
    _, down = view.adapted(Part.MLP)
    given = setup.product_bytes
    return (
        bool(down)
        and not setup.adapter.dropout
        and act.adapter_shares(
            given=given,
            dtype=setup.train_bytes,
            e=setup.compute_bytes,
            autocast=setup.autocast,
            packed=setup.quantized_base,
        )
    )


def _dense(view: View, part: Part, width: str) -> list[Terms]:
    ups, downs = view.linears(part)
    up_sites, down_sites = view.adapted(part)
    return [
        kept_inputs(view, "h", ups, up_sites, view.norm_output_bytes),
        activation(view, width, view.setup.product_bytes),
        kept_inputs(view, width, downs, down_sites, view.setup.compute_bytes),
    ]


def _routed(view: View) -> list[Terms]:
    """Routed experts at balanced load: inputs gathered per expert, and outputs kept for the routing weights.

    The router keeps its input, the fp32 softmax over all experts, and the chosen weights and indices. Grouped products
    sort the tokens by expert, and keep that order, its inverse and the weights in it
    (transformers `grouped_mm_experts_forward`).
    """
    router = view.setup.compute_bytes
    grouped, e = groups_experts(view.setup), expert_bytes(view.setup)
    chosen: Terms = {"E": 4, "K": 40, "": 4} if grouped else {"E": 4 + router, "K": 16}
    parts: list[Terms] = [chosen, {"xh": e}, activation(view, "xi", e)]
    if view.setup.adapter is None:
        combined = 4 if view.setup.runtime in COMBINES_IN_FP32 else e
        wide = view.model.model_type in FP32_ROUTERS and view.setup.runtime in COMPOSES_GELU
        return [*parts, {"h": 4 if wide else router, "xh": combined, "xi": e}]
    ups, downs = view.adapted(Part.EXPERTS)
    for width, sites in (("xh", ups), ("xi", downs)):
        if sites:
            parts.append(_adapter_inputs(view, width, sites, e))
    return parts
