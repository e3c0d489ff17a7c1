"""Hybrids of attention with delta nets, Mamba, lightning attention or convolutions.

Source: the modeling files of transformers 5.24.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.model.decoder import (
    decoder_spec,
    read_dense_feed,
    read_dense_feeds,
    read_heads,
    read_mixer,
    read_trunk,
    stack,
)
from planner.model.fields import LAYERS, Fields
from planner.model.linear_attention import (
    KERNEL,
    gated_delta_net,
    lightning_mixer,
    read_delta_attention,
    short_convolution,
)
from planner.model.mla_moe import next_token_blocks, read_latent_mixer
from planner.model.moe import deepseek_feeds, mix_feeds, qwen_experts, qwen_feeds, read_routing
from planner.model.parts import (
    AttentionNames,
    Feed,
    Mixer,
    MlpNames,
    matrix,
    moe_feed,
)
from planner.model.spec import Linear, ModelSpec, Part, Split
from planner.model.style import Style
from planner.units import round_up

_LLAMA = Style()
_QWEN = Style(qk_norm_default=True)
_W123 = MlpNames(gate="w1", up="w3", down="w2")
_LINEAR_OR_FULL = ("linear_attention", "full_attention")


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


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "qwen3_next": qwen3_next,
    "qwen3_5_text": qwen3_5_text,
    "qwen3_5_moe_text": qwen3_5_moe_text,
    "minimax": minimax,
    "kimi_linear": kimi_linear,
    "lfm2": lfm2,
    "lfm2_moe": lfm2_moe,
}
