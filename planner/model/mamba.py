"""Mamba and its hybrids with attention, MLPs and experts.

Source: the modeling files of transformers 5.24.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.model.decoder import (
    Trunk,
    decoder_spec,
    read_dense_feed,
    read_heads,
    read_mixer,
    read_trunk,
    stack,
)
from planner.model.fields import EXPERTS, HEADS, LAYERS, VOCAB, WIDTH, Fields
from planner.model.hybrid import latent_experts
from planner.model.linear_attention import (
    KERNEL,
    mamba2_mixer,
    mamba_mixer,
)
from planner.model.moe import mix_feeds, read_routing
from planner.model.parts import (
    NO_FEED,
    NO_MIXER,
    AttentionNames,
    Feed,
    Mixer,
    MlpNames,
    attention_matrices,
    moe_feed,
)
from planner.model.spec import ModelSpec
from planner.model.style import Style
from planner.units import ceil_div

_LLAMA = Style()
_ATTENTION_NAMES = ("attention", "full_attention")


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


def bamba(f: Fields) -> ModelSpec:
    """Bamba: Mamba-2 with attention in the layers that the config lists, a gated MLP in all."""
    trunk = read_trunk(f, _LLAMA)
    count, hidden = trunk.num_layers, trunk.hidden_size
    kinds = f.texts("layer_types", count, ("mamba", "linear_attention", *_ATTENTION_NAMES))
    if kinds is None:
        listed = f.sizes("attn_layer_indices", None, span=(0, LAYERS[1]))
        if listed is None:
            f.missing("attn_layer_indices")
        kinds = tuple("attention" if index in listed else "mamba" for index in range(count))
    attention = read_mixer(f, _LLAMA, hidden, read_heads(f, hidden))
    mamba_layer = _granite_mamba(f, hidden)
    mixers = [attention if kind in _ATTENTION_NAMES else mamba_layer for kind in kinds]
    feed = read_dense_feed(f, _LLAMA, hidden)
    return decoder_spec(f, _LLAMA, trunk, stack(mixers, (feed,) * count, 2 * trunk.norm_params))


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
    if not f.has("hybrid_override_pattern"):
        return _nemotron_names(f)
    pattern = f.text("hybrid_override_pattern")
    if not LAYERS[0] <= len(pattern) <= LAYERS[1]:
        f.refuse("hybrid_override_pattern", pattern, f"{LAYERS[0]}..{LAYERS[1]} letters")
    for letter in pattern:
        if letter not in _NEMOTRON_LETTERS:
            f.refuse("hybrid_override_pattern", letter, ", ".join(_NEMOTRON_LETTERS))
    return [_NEMOTRON_LETTERS[letter] for letter in pattern]


def _nemotron_names(f: Fields) -> Sequence[str]:
    key, value = f.raw("layers_block_type", "layer_types")
    if value is None:
        f.missing("hybrid_override_pattern")
    names = f.texts(key, None, tuple(_NEMOTRON_NAMES))
    if not names:
        f.refuse(key, value, f"{LAYERS[0]}..{LAYERS[1]} items")
    return [_NEMOTRON_NAMES[name] for name in names]


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


def falcon_h1(f: Fields) -> ModelSpec:
    """Falcon-H1: attention and Mamba-2 side by side in every layer, their outputs added, then a gated MLP.

    The layer's shape is its attention's; the states of the heads beside it stand in it too.
    """
    trunk = read_trunk(f, _LLAMA)
    count, hidden = trunk.num_layers, trunk.hidden_size
    attention = read_mixer(f, _LLAMA, hidden, read_heads(f, hidden))
    beside = _falcon_mamba_heads(f, hidden)
    shape = replace(
        attention.shape,
        state_elements=beside.shape.state_elements,
        conv_state_elements=beside.shape.conv_state_elements,
    )
    mixer = Mixer(
        shape=shape,
        linears=(*attention.linears, *beside.linears),
        norm_params=attention.norm_params + beside.norm_params,
        vector_params=attention.vector_params + beside.vector_params,
    )
    feed = read_dense_feed(f, _LLAMA, hidden)
    return decoder_spec(f, _LLAMA, trunk, stack((mixer,) * count, (feed,) * count, 2 * trunk.norm_params))


def _falcon_mamba_heads(f: Fields, hidden: int) -> Mixer:
    """Mamba-2 of a width of its own, with or without a norm on its output."""
    heads = f.size("mamba_n_heads", span=HEADS)
    expanded = f.size("mamba_expand", span=(1, 64), default=2) * hidden
    width = f.optional_size("mamba_d_ssm") or expanded
    dim = f.divides("mamba_n_heads", heads, "mamba_d_ssm", width)
    if f.config.get("mamba_d_head", "auto") not in ("auto", None, dim):
        f.refuse("mamba_d_head", f.config["mamba_d_head"], str(dim))
    mixer = mamba2_mixer(
        hidden,
        heads=heads,
        head_dim=dim,
        state=f.size("mamba_d_state", default=256),
        groups=f.size("mamba_n_groups", span=HEADS, default=1),
        kernel=f.size("mamba_d_conv", span=KERNEL, default=4),
        conv_bias=f.flag("mamba_conv_bias", default=True),
        proj_bias=f.flag("mamba_proj_bias", default=False),
    )
    taken, given = mixer.linears
    out_bias = hidden if f.flag("projectors_bias", default=False) else 0
    named = (
        replace(taken, name="mamba.in_proj"),
        replace(given, name="mamba.out_proj", bias_features=out_bias),
    )
    normed = f.flag("mamba_rms_norm", default=False)
    return replace(mixer, linears=named, norm_params=mixer.norm_params if normed else 0)


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
    "jamba": jamba,
    "mamba": mamba,
    "falcon_mamba": mamba,
    "mamba2": mamba2,
    "bamba": bamba,
    "nemotron_h": nemotron_h,
    "granitemoehybrid": granitemoehybrid,
    "falcon_h1": falcon_h1,
}
