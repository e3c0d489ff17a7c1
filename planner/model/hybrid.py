"""Hybrids of attention with delta nets, Mamba, lightning attention or convolutions.

Source: the modeling files of transformers 5.24.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.model.decoder import (
    Trunk,
    decoder_spec,
    read_dense_feed,
    read_dense_feeds,
    read_heads,
    read_mixer,
    read_trunk,
    stack,
)
from planner.model.fields import EXPERTS, HEADS, LAYERS, VOCAB, WIDTH, Fields
from planner.model.linear_attention import (
    KERNEL,
    gated_delta_net,
    lightning_mixer,
    mamba2_mixer,
    mamba_mixer,
    read_delta_attention,
    short_convolution,
)
from planner.model.mla_moe import next_token_blocks, read_latent_mixer
from planner.model.moe import deepseek_feeds, mix_feeds, qwen_experts, qwen_feeds, read_routing
from planner.model.parts import (
    NO_FEED,
    NO_MIXER,
    AttentionNames,
    Feed,
    Mixer,
    MlpNames,
    attention_matrices,
    matrix,
    moe_feed,
)
from planner.model.spec import Linear, ModelSpec, Part, Split
from planner.model.style import Style
from planner.units import ceil_div, round_up

_LLAMA = Style()
_QWEN = Style(qk_norm_default=True)
_W123 = MlpNames(gate="w1", up="w3", down="w2")
_LINEAR_OR_FULL = ("linear_attention", "full_attention")
_ATTENTION_NAMES = ("attention", "full_attention")


def every_nth(count: int, period: int, rare: str, common: str) -> Sequence[str]:
    """`rare` in every `period`-th layer, `common` elsewhere."""
    return [common if (index + 1) % period else rare for index in range(count)]


def _gated_attention(f: Fields, hidden: int, *, gated: bool) -> Mixer:
    """Attention whose query projection also yields a gate on the output, hence is twice as wide."""
    mixer = read_mixer(f, _QWEN, hidden, read_heads(f, hidden))
    if not f.flag("attn_output_gate", default=gated):
        return mixer
    query = mixer.linears[0]
    doubled = replace(query, out_features=2 * query.out_features, bias_features=2 * query.bias_features)
    return replace(mixer, linears=(doubled, *mixer.linears[1:]))


def _qwen_hybrid(
    f: Fields, *, fused: bool, feeds: Callable[[Fields, Style, int], Sequence[Feed]]
) -> ModelSpec:
    trunk = read_trunk(f, _QWEN)
    count = trunk.num_layers
    period = f.size("full_attention_interval", span=LAYERS, default=4)
    kinds = f.texts("layer_types", count, _LINEAR_OR_FULL)
    kinds = kinds or tuple(every_nth(count, period, "full_attention", "linear_attention"))
    made: dict[str, Mixer] = {}
    for kind in dict.fromkeys(kinds):
        if kind == "full_attention":
            made[kind] = _gated_attention(f, trunk.hidden_size, gated=True)
        else:
            made[kind] = gated_delta_net(f, trunk.hidden_size, fused=fused)
    layers = stack([made[kind] for kind in kinds], feeds(f, _QWEN, count), 2 * trunk.norm_params)
    spec = decoder_spec(f, _QWEN, trunk, layers)
    predicted = f.size("mtp_num_hidden_layers", span=(0, LAYERS[1]), default=0)
    if not predicted:
        return spec
    full = next(
        (layer for layer, kind in zip(layers, kinds, strict=True) if kind == "full_attention"), layers[-1]
    )
    return replace(spec, blocks=next_token_blocks(full, trunk.hidden_size, predicted))


def qwen3_next(f: Fields) -> ModelSpec:
    """Qwen3-Next."""
    return _qwen_hybrid(f, fused=True, feeds=qwen_feeds(shared=True))


def qwen3_5_text(f: Fields) -> ModelSpec:
    """Qwen3.5, dense."""
    return _qwen_hybrid(f, fused=False, feeds=read_dense_feeds)


def qwen3_5_moe_text(f: Fields) -> ModelSpec:
    """Qwen3.5 with experts in every layer."""

    def feeds(g: Fields, style: Style, num_layers: int) -> Sequence[Feed]:
        del style
        return (qwen_experts(g, shared=True),) * num_layers

    return _qwen_hybrid(f, fused=False, feeds=feeds)


def minimax(f: Fields) -> ModelSpec:
    """MiniMax-Text-01."""
    trunk = read_trunk(f, _LLAMA)
    count, hidden = trunk.num_layers, trunk.hidden_size
    kinds = f.texts("layer_types", count, _LINEAR_OR_FULL)
    if kinds is None:
        marks = f.sizes("attn_type_list", count, span=(0, 1))
        if marks is None:
            f.missing("layer_types")
        kinds = tuple("full_attention" if mark else "linear_attention" for mark in marks)
    shape = read_heads(f, hidden)
    made = {
        "full_attention": read_mixer(f, _LLAMA, hidden, shape),
        "linear_attention": lightning_mixer(hidden, shape.num_heads, shape.head_dim),
    }
    experts, top = read_routing(f, ("num_local_experts",), ("num_experts_per_tok",))
    feed = moe_feed(
        hidden, experts=experts, experts_per_token=top, width=f.size("intermediate_size"), names=_W123
    )
    layers = stack([made[kind] for kind in kinds], (feed,) * count, 2 * trunk.norm_params)
    return decoder_spec(f, _LLAMA, trunk, layers)


def kimi_linear(f: Fields) -> ModelSpec:
    """Kimi-Linear: delta attention with a latent-attention layer among every four."""
    trunk = read_trunk(f, _LLAMA)
    count, hidden = trunk.num_layers, trunk.hidden_size
    made: dict[str, Mixer] = {}
    kinds = _kimi_kinds(f, count)
    for kind in dict.fromkeys(kinds):
        linear = kind == "linear_attention"
        made[kind] = read_delta_attention(f, hidden) if linear else read_latent_mixer(f, hidden)
    feeds = deepseek_feeds(1)(f, _LLAMA, count)
    if not any(f.has(key) for key in _KIMI_K3_KEYS):
        return decoder_spec(
            f, _LLAMA, trunk, stack([made[kind] for kind in kinds], feeds, 2 * trunk.norm_params)
        )
    gated = f.flag("mla_use_output_gate", default=False)
    if gated and "full_attention" in made:
        made["full_attention"] = _with_output_gate(made["full_attention"], hidden)
    latent = _latent_feeds(f, feeds, hidden)
    spec = decoder_spec(
        f, _LLAMA, trunk, stack([made[kind] for kind in kinds], latent, 2 * trunk.norm_params)
    )
    return replace(spec, approximate=("class_not_public",))


_KIMI_K3_KEYS = ("routed_expert_hidden_size", "mla_use_output_gate", "attn_res_block_size")
"""Keys of Kimi K3, whose class is not public: its layout is read off the names of its keys."""


def _with_output_gate(mixer: Mixer, hidden: int) -> Mixer:
    shape = mixer.shape
    gate = matrix("g_proj", hidden, shape.num_heads * shape.v_head_dim, Part.ATTENTION, Split.COLUMN)
    return replace(mixer, linears=(*mixer.linears, gate))


def _latent_feeds(f: Fields, feeds: Sequence[Feed], hidden: int) -> Sequence[Feed]:
    """Experts that work in a narrower width, with one projection into it and one out of it."""
    latent = f.optional_size("routed_expert_hidden_size")
    if latent is None:
        return feeds
    norm = latent if f.flag("latent_moe_use_norm", default=False) else 0
    made: dict[int, Feed] = {}
    for feed in feeds:
        if id(feed) not in made:
            made[id(feed)] = replace(latent_experts(feed, hidden, latent), norm_params=norm)
    return [made[id(feed)] if feed.shape.num_experts else feed for feed in feeds]


def latent_experts(feed: Feed, hidden: int, latent: int) -> Feed:
    """The same routed experts reading and writing `latent` instead of `hidden` widths."""
    waist = (
        matrix("fc1_latent_proj", hidden, latent, Part.MLP),
        matrix("fc2_latent_proj", latent, hidden, Part.MLP),
    )
    linears = tuple(
        _narrowed(linear, latent) if linear.part is Part.EXPERTS else linear for linear in feed.linears
    )
    return replace(feed, linears=linears + waist)


def _narrowed(linear: Linear, latent: int) -> Linear:
    if linear.split is Split.ROW:
        return replace(linear, out_features=latent)
    return replace(linear, in_features=latent)


def _kimi_kinds(f: Fields, count: int) -> Sequence[str]:
    types = f.texts("layer_types", count, _LINEAR_OR_FULL)
    if types is not None:
        return types
    if f.has("linear_attn_config"):
        nested = f.nested("linear_attn_config")
        full = nested.sizes("full_attn_layers", None, span=LAYERS)
        if full is not None:
            return ["full_attention" if index + 1 in full else "linear_attention" for index in range(count)]
    return ["full_attention" if index and index % 4 == 0 else "linear_attention" for index in range(count)]


def _read_mamba(f: Fields, hidden: int, prefix: str, *, inner_norms: bool) -> Mixer:
    expand = f.size(f"{prefix}expand", span=(1, 64), default=2)
    rank_key = "mamba_dt_rank" if prefix else "time_step_rank"
    rank = ceil_div(hidden, 16)
    if f.config.get(rank_key) != "auto":
        rank = f.size(rank_key, default=rank)
    return mamba_mixer(
        hidden,
        width=expand * hidden,
        state=f.size(f"{prefix}d_state" if prefix else "state_size", default=16),
        kernel=f.size(f"{prefix}d_conv" if prefix else "conv_kernel", span=KERNEL, default=4),
        time_rank=rank,
        conv_bias=f.flag(f"{prefix}conv_bias" if prefix else "use_conv_bias", default=True),
        proj_bias=f.flag(f"{prefix}proj_bias" if prefix else "use_bias", default=False),
        inner_norms=inner_norms,
    )


def jamba(f: Fields) -> ModelSpec:
    """Jamba: Mamba with attention in every eighth layer and experts in every second."""
    trunk = read_trunk(f, _LLAMA)
    count, hidden = trunk.num_layers, trunk.hidden_size
    attention_at = _period(f, "attn_layer", 8, 4)
    experts_at = _period(f, "expert_layer", 2, 1)
    attention = read_mixer(f, _LLAMA, hidden, read_heads(f, hidden))
    mamba_layer = _read_mamba(f, hidden, "mamba_", inner_norms=True)
    mixers = [
        attention if index % attention_at[0] == attention_at[1] else mamba_layer for index in range(count)
    ]
    feeds = mix_feeds(
        [index % experts_at[0] == experts_at[1] for index in range(count)],
        lambda: read_dense_feed(f, _LLAMA, hidden),
        lambda: _jamba_experts(f, hidden),
    )
    spec = decoder_spec(f, _LLAMA, trunk, stack(mixers, feeds, 2 * trunk.norm_params))
    return replace(spec, position_embedding="none")


def _period(f: Fields, name: str, period: int, offset: int) -> tuple[int, int]:
    every = f.size(f"{name}_period", span=LAYERS, default=period)
    return every, f.size(f"{name}_offset", span=(0, every - 1), default=offset)


def _jamba_experts(f: Fields, hidden: int) -> Feed:
    experts, top = read_routing(f, ("num_experts",), ("num_experts_per_tok",))
    width = f.size("intermediate_size")
    return moe_feed(hidden, experts=experts, experts_per_token=top, width=width, router_name="router")


def mamba(f: Fields) -> ModelSpec:
    """Mamba: one norm and one mixer in a layer."""
    trunk = read_trunk(f, _LLAMA)
    mixer = _read_mamba(f, trunk.hidden_size, "", inner_norms=False)
    layers = stack((mixer,) * trunk.num_layers, (NO_FEED,) * trunk.num_layers, trunk.norm_params)
    spec = decoder_spec(f, replace(_LLAMA, tie=True), trunk, layers)
    return replace(spec, position_embedding="none")


def mamba2(f: Fields) -> ModelSpec:
    """Mamba-2."""
    trunk = read_trunk(f, _LLAMA)
    hidden = trunk.hidden_size
    heads, dim = f.size("num_heads", span=HEADS), f.size("head_dim")
    width = f.size("expand", span=(1, 64), default=2) * hidden
    if heads * dim != width:
        f.refuse("num_heads", heads, f"expand * hidden_size / head_dim = {width / dim:g}")
    mixer = mamba2_mixer(
        hidden,
        heads=heads,
        head_dim=dim,
        state=f.size("state_size"),
        groups=f.size("n_groups", span=HEADS),
        kernel=f.size("conv_kernel", span=KERNEL, default=4),
        conv_bias=f.flag("use_conv_bias", default=True),
        proj_bias=f.flag("use_bias", default=False),
    )
    layers = stack((mixer,) * trunk.num_layers, (NO_FEED,) * trunk.num_layers, trunk.norm_params)
    return replace(decoder_spec(f, _LLAMA, trunk, layers), position_embedding="none")


def lfm2(f: Fields) -> ModelSpec:
    """LFM2, dense: the MLP width is cut to two thirds and rounded up where the config says so."""
    width = f.size("block_ff_dim", "intermediate_size")
    if f.flag("block_auto_adjust_ff_dim", default=True):
        factor = f.number("block_ffn_dim_multiplier", span=(0.0, 64.0), default=1.0)
        width = round_up(int(factor * (2 * width // 3)), f.size("block_multiple_of", default=256))
        if not width:
            f.refuse("block_ffn_dim_multiplier", factor, "above 0")
    return _lfm2(f, lambda: read_dense_feed(f, Style(mlp_names=_W123), f.size("hidden_size"), width), None)


def lfm2_moe(f: Fields) -> ModelSpec:
    """LFM2 with experts after the first dense layers."""
    return _lfm2(
        f,
        lambda: read_dense_feed(f, Style(mlp_names=_W123), f.size("hidden_size")),
        lambda: _lfm2_experts(f),
    )


def _lfm2_experts(f: Fields) -> Feed:
    experts, top = read_routing(f, ("num_experts",), ("num_experts_per_tok",))
    return moe_feed(
        f.size("hidden_size"),
        experts=experts,
        experts_per_token=top,
        width=f.size("moe_intermediate_size"),
        names=_W123,
    )


def _lfm2(f: Fields, dense: Callable[[], Feed], experts: Callable[[], Feed] | None) -> ModelSpec:
    tie = f.flag("tie_embedding", default=True)
    style = Style(tie=tie, attention_names=AttentionNames(output="out_proj"), qk_norm_default=True)
    trunk = read_trunk(f, style)
    count, hidden = trunk.num_layers, trunk.hidden_size
    kinds = f.texts("layer_types", count, ("conv", "full_attention"))
    if kinds is None:
        full = f.sizes("full_attn_idxs", None, span=(0, LAYERS[1]))
        if full is None:
            f.missing("layer_types")
        kinds = tuple("full_attention" if index in full else "conv" for index in range(count))
    made: dict[str, Mixer] = {}
    for kind in dict.fromkeys(kinds):
        if kind == "full_attention":
            made[kind] = read_mixer(f, style, hidden, read_heads(f, hidden))
        else:
            made[kind] = short_convolution(
                hidden,
                kernel=f.size("conv_L_cache", span=KERNEL, default=3),
                bias=f.flag("conv_bias", default=False),
            )
    first = count if experts is None else f.size("num_dense_layers", span=(0, LAYERS[1]))
    feeds = mix_feeds([index >= first for index in range(count)], dense, experts or dense)
    return decoder_spec(f, style, trunk, stack([made[kind] for kind in kinds], feeds, 2 * trunk.norm_params))


_NEMOTRON_LETTERS = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
_NEMOTRON_NAMES = {
    "mamba": "mamba",
    "linear_attention": "mamba",
    "moe": "moe",
    "attention": "attention",
    "full_attention": "attention",
    "mlp": "mlp",
}


def nemotron_h(f: Fields) -> ModelSpec:
    """Nemotron-H and Nemotron 3: every layer is one norm and one of Mamba-2, attention, MLP or experts."""
    kinds = _nemotron_kinds(f)
    hidden = f.size("hidden_size")
    trunk = Trunk(
        hidden_size=hidden,
        num_layers=len(kinds),
        vocab_size=f.size("vocab_size", span=VOCAB),
        norm="rms_norm",
        norm_params=hidden,
    )
    makers: dict[str, Callable[[], tuple[Mixer, Feed]]] = {
        "mamba": lambda: (_nemotron_mamba(f, hidden), NO_FEED),
        "attention": lambda: (_nemotron_attention(f, hidden), NO_FEED),
        "mlp": lambda: (NO_MIXER, read_dense_feed(f, Style(gated=False), hidden)),
        "moe": lambda: (NO_MIXER, _nemotron_experts(f, hidden)),
    }
    made = {kind: makers[kind]() for kind in dict.fromkeys(kinds)}
    layers = stack([made[kind][0] for kind in kinds], [made[kind][1] for kind in kinds], trunk.norm_params)
    style = Style(gated=False, hidden_act="relu2")
    return replace(decoder_spec(f, style, trunk, layers), position_embedding="none")


def _nemotron_kinds(f: Fields) -> Sequence[str]:
    if f.has("hybrid_override_pattern"):
        pattern = f.text("hybrid_override_pattern")
        if not LAYERS[0] <= len(pattern) <= LAYERS[1]:
            f.refuse("hybrid_override_pattern", pattern, f"{LAYERS[0]}..{LAYERS[1]} letters")
        for letter in pattern:
            if letter not in _NEMOTRON_LETTERS:
                f.refuse("hybrid_override_pattern", letter, ", ".join(_NEMOTRON_LETTERS))
        return [_NEMOTRON_LETTERS[letter] for letter in pattern]
    for key in ("layers_block_type", "layer_types"):
        value = f.config.get(key)
        if isinstance(value, list | tuple):
            names = f.texts(key, len(value), tuple(_NEMOTRON_NAMES))
            if names:
                return [_NEMOTRON_NAMES[name] for name in names]
    f.missing("hybrid_override_pattern")


def _nemotron_attention(f: Fields, hidden: int) -> Mixer:
    """Without biases; the class reads no `attention_bias`."""
    shape = read_heads(f, hidden)
    return Mixer(shape=shape, linears=attention_matrices(hidden, shape, AttentionNames()))


def _nemotron_mamba(f: Fields, hidden: int) -> Mixer:
    return mamba2_mixer(
        hidden,
        heads=f.size("mamba_num_heads", span=HEADS),
        head_dim=f.size("mamba_head_dim"),
        state=f.size("ssm_state_size"),
        groups=f.size("n_groups", "mamba_n_groups", span=HEADS),
        kernel=f.size("conv_kernel", "mamba_d_conv", span=KERNEL, default=4),
        conv_bias=f.flag("use_conv_bias", "mamba_conv_bias", default=True),
        proj_bias=f.flag("use_bias", default=False),
    )


def _nemotron_experts(f: Fields, hidden: int) -> Feed:
    experts, top = read_routing(f, ("n_routed_experts",), ("num_experts_per_tok",))
    latent = f.optional_size("moe_latent_size")
    shared = f.size("n_shared_experts", span=(0, EXPERTS[1]), default=1)
    width = f.size("moe_shared_expert_intermediate_size", span=(0, WIDTH[1]))
    feed = moe_feed(
        hidden,
        experts=experts,
        experts_per_token=top,
        width=f.size("moe_intermediate_size"),
        shared_width=shared * width,
        gated=False,
    )
    if latent is None:
        return feed
    return latent_experts(feed, hidden, latent)


def granitemoehybrid(f: Fields) -> ModelSpec:
    """Granite 4: Mamba-2 or attention, then a shared MLP, beside it experts where there are any."""
    trunk = read_trunk(f, _LLAMA)
    count, hidden = trunk.num_layers, trunk.hidden_size
    names = ("mamba", "linear_attention", *_ATTENTION_NAMES)
    kinds = f.texts("layer_types", count, names)
    if kinds is None:
        f.missing("layer_types")
    made: dict[str, Mixer] = {}
    for kind in dict.fromkeys(kinds):
        if kind in _ATTENTION_NAMES:
            made[kind] = read_mixer(f, _LLAMA, hidden, read_heads(f, hidden))
        else:
            made[kind] = _granite_mamba(f, hidden)
    feed = _granite_feed(f, hidden)
    layers = stack([made[kind] for kind in kinds], (feed,) * count, 2 * trunk.norm_params)
    position = f.text("position_embedding_type", default="none", allowed=("rope", "nope", "none"))
    spec = decoder_spec(f, _LLAMA, trunk, layers)
    return replace(spec, position_embedding="rope" if position == "rope" else "none")


def _granite_mamba(f: Fields, hidden: int) -> Mixer:
    heads = f.size("mamba_n_heads", span=HEADS)
    width = f.size("mamba_expand", span=(1, 64), default=2) * hidden
    dim = f.divides("mamba_n_heads", heads, "mamba_expand * hidden_size", width)
    if f.config.get("mamba_d_head", "auto") not in ("auto", dim):
        f.refuse("mamba_d_head", f.config["mamba_d_head"], str(dim))
    return mamba2_mixer(
        hidden,
        heads=heads,
        head_dim=dim,
        state=f.size("mamba_d_state"),
        groups=f.size("mamba_n_groups", span=HEADS),
        kernel=f.size("mamba_d_conv", span=KERNEL, default=4),
        conv_bias=f.flag("mamba_conv_bias", default=True),
        proj_bias=f.flag("mamba_proj_bias", default=False),
    )


def _granite_feed(f: Fields, hidden: int) -> Feed:
    names = MlpNames(fused="input_linear", down="output_linear")
    shared = f.size("shared_intermediate_size")
    if not f.size("num_local_experts", span=(0, EXPERTS[1])):
        feed = read_dense_feed(f, Style(mlp_names=names), hidden, shared)
        renamed = tuple(replace(linear, name=f"shared_mlp.{linear.name}") for linear in feed.linears)
        return replace(feed, linears=renamed)
    experts, top = read_routing(f, ("num_local_experts",), ("num_experts_per_tok",))
    return moe_feed(
        hidden,
        experts=experts,
        experts_per_token=top,
        width=f.size("intermediate_size"),
        shared_width=shared,
        names=names,
        shared_names=names,
        router_name="router",
        shared_prefix="shared_mlp.",
    )


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "qwen3_next": qwen3_next,
    "qwen3_5_text": qwen3_5_text,
    "qwen3_5_moe_text": qwen3_5_moe_text,
    "minimax": minimax,
    "kimi_linear": kimi_linear,
    "jamba": jamba,
    "mamba": mamba,
    "mamba2": mamba2,
    "lfm2": lfm2,
    "lfm2_moe": lfm2_moe,
    "nemotron_h": nemotron_h,
    "granitemoehybrid": granitemoehybrid,
}
