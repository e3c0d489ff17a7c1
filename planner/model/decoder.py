"""Decoders of the usual shape: grouped-query attention, an MLP or experts, norms. A `Style` says the rest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from planner.model.fields import HEADS, LAYERS, POSITIONS, VOCAB, Fields
from planner.model.parts import Feed, Mixer, attention_matrices, dense_feed, head, join
from planner.model.spec import Attention, AttentionKind, Layer, ModelSpec
from planner.model.style import QkNorm, Slides, Style

Window = tuple[AttentionKind, int | None]
ReadFeeds = Callable[[Fields, Style, int], Sequence[Feed]]

FULL: Window = (AttentionKind.FULL, None)
LAYER_KINDS = {
    "full_attention": AttentionKind.FULL,
    "sliding_attention": AttentionKind.SLIDING,
    "chunked_attention": AttentionKind.CHUNKED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trunk:
    """What all layers of a decoder share.

    Attributes:
        hidden_size: Residual width.
        num_layers: Layers.
        vocab_size: Rows of the embedding.
        norm: `rms_norm` or `layer_norm`.
        norm_params: Parameters of one norm of `hidden_size`.
    """

    hidden_size: int
    num_layers: int
    vocab_size: int
    norm: str
    norm_params: int


def read_norm(f: Fields, style: Style, hidden_size: int) -> tuple[str, int]:
    """The kind of norm and the parameters of one of them."""
    norm = f.text("norm", default=style.norm, allowed=("layer_norm", "rms_norm"))
    if not style.norm_weight:
        return norm, 0
    return norm, hidden_size * (2 if norm == "layer_norm" and style.norm_bias else 1)


def read_trunk(f: Fields, style: Style) -> Trunk:
    """The sizes every decoder has."""
    hidden_size = f.size("hidden_size")
    norm, norm_params = read_norm(f, style, hidden_size)
    return Trunk(
        hidden_size=hidden_size,
        num_layers=f.size("num_hidden_layers", span=LAYERS),
        vocab_size=f.size("vocab_size", span=VOCAB),
        norm=norm,
        norm_params=norm_params,
    )


def grouped(heads: int, kv_heads: int, head_dim: int, window: Window = FULL) -> Attention:
    """Grouped-query attention.

    Args:
        heads: Query heads.
        kv_heads: Key and value heads.
        head_dim: Width of each.
        window: Kind, and the tokens that are seen, None for all.
    """
    return Attention(
        kind=window[0],
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=head_dim,
        window=window[1],
    )


def latent(heads: int, *, nope: int, rope: int, value: int, q_lora_rank: int, kv_lora_rank: int) -> Attention:
    """Multi-head latent attention: a head's key is `nope` wide and rotary over `rope` more, its value `value`.

    Args:
        heads: Heads.
        nope: Width of a key without its rotary part.
        rope: Width of the rotary part.
        value: Width of a value.
        q_lora_rank: Width of the compressed query, 0 for none.
        kv_lora_rank: Width of the latent that is cached.
    """
    return Attention(
        kind=AttentionKind.MLA,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=nope + rope,
        v_head_dim=value,
        kv_lora_rank=kv_lora_rank,
        qk_rope_head_dim=rope,
        q_lora_rank=q_lora_rank,
    )


def read_heads(f: Fields, hidden_size: int, kv_default: int | None = None) -> Attention:
    """Grouped-query attention: heads, key and value heads, head width."""
    heads = f.size("num_attention_heads", span=HEADS)
    kv_heads = f.size("num_key_value_heads", span=HEADS, default=kv_default or heads)
    f.divides("num_key_value_heads", kv_heads, "num_attention_heads", heads)
    head_dim = f.optional_size("head_dim")
    if head_dim is None:
        head_dim = f.divides("num_attention_heads", heads, "hidden_size", hidden_size)
    return grouped(heads, kv_heads, head_dim)


def with_window(shape: Attention, window: Window) -> Attention:
    """The same heads looking at a window."""
    return shape if window == FULL else replace(shape, kind=window[0], window=window[1])


def read_windows(f: Fields, style: Style, num_layers: int) -> Sequence[Window]:
    """The attention kind and window of every layer."""
    types = f.texts("layer_types", num_layers, tuple(LAYER_KINDS))
    if types is not None:
        by_type = {name: _typed_window(f, name, style) for name in dict.fromkeys(types)}
        return [by_type[name] for name in types]
    if style.slides is Slides.FLAGGED and not f.flag("use_sliding_window", default=False):
        return (FULL,) * num_layers
    window = f.optional_size("sliding_window", span=POSITIONS) or style.window
    if window is None:
        return (FULL,) * num_layers
    return _default_windows(f, style, num_layers, (AttentionKind.SLIDING, window))


def _default_windows(f: Fields, style: Style, num_layers: int, slide: Window) -> Sequence[Window]:
    if style.slides is Slides.ALWAYS:
        return (slide,) * num_layers
    if style.slides is Slides.FLAGGED:
        first = f.size("max_window_layers", span=(0, LAYERS[1]))
        return [slide if index >= first else FULL for index in range(num_layers)]
    if style.slides is Slides.MOST:
        period = f.size(
            "sliding_window_pattern", "_sliding_window_pattern", span=LAYERS, default=style.period
        )
        windows = [slide if (index + 1) % period else FULL for index in range(num_layers)]
        return [*windows[:-1], FULL] if style.full_last else windows
    return (FULL,) * num_layers


def _typed_window(f: Fields, name: str, style: Style) -> Window:
    kind = LAYER_KINDS[name]
    if kind is AttentionKind.FULL:
        return FULL
    key = "sliding_window" if kind is AttentionKind.SLIDING else "attention_chunk_size"
    return (kind, f.size(key, span=POSITIONS, default=style.window))


def qk_norm_params(shape: Attention, kind: QkNorm) -> int:
    """Width of the norms on queries and keys together."""
    if kind is QkNorm.HEAD:
        return 2 * shape.head_dim
    return shape.q_width + shape.k_width


def read_mixer(f: Fields, style: Style, hidden_size: int, shape: Attention) -> Mixer:
    """The attention of one layer with its biases and norms."""
    qkv_bias = f.flag(style.bias_key, "attention_bias", default=style.qkv_bias)
    output_bias = style.output_bias
    if style.output_bias_key:
        output_bias = f.flag(style.output_bias_key, default=output_bias)
    elif style.output_follows and f.has(style.bias_key, "attention_bias"):
        output_bias = qkv_bias
    qk_norm = style.qk_norm_default
    if style.qk_norm_key:
        qk_norm = f.flag(style.qk_norm_key, "qk_norm", default=qk_norm)
    return Mixer(
        shape=shape,
        linears=attention_matrices(
            hidden_size, shape, style.attention_names, qkv_bias=qkv_bias, output_bias=output_bias
        ),
        norm_params=qk_norm_params(shape, style.qk_norm) * style.qk_norm_scale if qk_norm else 0,
    )


def read_mixers(f: Fields, style: Style, trunk: Trunk) -> list[Mixer]:
    """The attention of every layer, equal layers sharing one object."""
    shape = read_heads(f, trunk.hidden_size)
    windows = read_windows(f, style, trunk.num_layers)
    made = {
        window: read_mixer(f, style, trunk.hidden_size, with_window(shape, window))
        for window in dict.fromkeys(windows)
    }
    return [made[window] for window in windows]


def read_dense_feed(f: Fields, style: Style, hidden_size: int, width: int | None = None) -> Feed:
    """The dense MLP of one layer."""
    return dense_feed(
        hidden_size,
        f.size("intermediate_size") if width is None else width,
        style.mlp_names,
        gated=f.flag("gated_mlp", default=style.gated),
        bias=f.flag(style.mlp_bias_key, "mlp_bias", default=style.mlp_bias),
    )


def read_dense_feeds(f: Fields, style: Style, num_layers: int) -> Sequence[Feed]:
    """The same dense MLP in every layer."""
    return (read_dense_feed(f, style, f.size("hidden_size")),) * num_layers


def stack(mixers: Sequence[Mixer], feeds: Sequence[Feed], norm_params: int) -> tuple[Layer, ...]:
    """Layers from their halves; the same pair of halves gives the same object."""
    made: dict[tuple[int, int], Layer] = {}
    layers = []
    for mixer, feed in zip(mixers, feeds, strict=True):
        key = (id(mixer), id(feed))
        layer = made.get(key)
        if layer is None:
            layer = made[key] = join(mixer, feed, norm_params)
        layers.append(layer)
    return tuple(layers)


def decoder_spec(
    f: Fields, style: Style, trunk: Trunk, layers: tuple[Layer, ...], *, position_params: int = 0
) -> ModelSpec:
    """A whole decoder around its layers."""
    hidden, vocab = trunk.hidden_size, trunk.vocab_size
    head_bias = style.head_bias
    if style.head_bias_key:
        head_bias = f.flag(style.head_bias_key, default=head_bias)
    return ModelSpec(
        model_type=f.model_type,
        hidden_size=hidden,
        vocab_size=vocab,
        max_position_embeddings=f.optional_size(
            "max_position_embeddings", "model_max_length", "seq_length", span=POSITIONS
        ),
        layers=layers,
        embedding_params=hidden * vocab,
        position_params=position_params,
        final_norm_params=trunk.norm_params,
        head=head(hidden, vocab, bias=head_bias, name=style.head_name),
        tie_word_embeddings=f.flag("tie_word_embeddings", default=style.tie),
        norm=trunk.norm,
        hidden_act=f.text("hidden_act", "hidden_activation", default=style.hidden_act),
        position_embedding=style.position,
        logit_soft_cap=f.has("final_logit_softcapping"),
        parallel_residual=style.parallel,
    )


def build_decoder(f: Fields, style: Style, feeds: ReadFeeds = read_dense_feeds) -> ModelSpec:
    """A decoder whose layers differ only in window and feed-forward part.

    Args:
        f: The config.
        style: The family.
        feeds: Returns the feed-forward part of every layer.
    """
    trunk = read_trunk(f, style)
    mixers = read_mixers(f, style, trunk)
    layers = stack(mixers, feeds(f, style, trunk.num_layers), style.norms * trunk.norm_params)
    return decoder_spec(f, style, trunk, layers)
