"""Decoders of the usual shape: grouped-query attention, an MLP or experts, norms. A `Style` says the rest."""

from collections.abc import Callable
from dataclasses import dataclass

from planner.model.fields import HEADS, LAYERS, POSITIONS, VOCAB, Fields
from planner.model.parts import Feed, Mixer, attention_matrices, dense_feed, head, join, share
from planner.model.spec import Attention, AttentionKind, Layer, ModelSpec
from planner.model.style import QkNorm, Slides, Style

Window = tuple[AttentionKind, int | None]

_FULL: Window = (AttentionKind.FULL, None)
_KINDS = {
    "full_attention": AttentionKind.FULL,
    "sliding_attention": AttentionKind.SLIDING,
    "chunked_attention": AttentionKind.CHUNKED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trunk:
    """What all layers of a decoder share."""

    hidden_size: int
    num_layers: int
    vocab_size: int
    norm: str
    norm_params: int
    """Parameters of one norm of `hidden_size`."""


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


def read_heads(f: Fields, hidden_size: int) -> Attention:
    """Grouped-query attention: heads, key and value heads, head width."""
    heads = f.size("num_attention_heads", span=HEADS)
    kv_heads = f.size("num_key_value_heads", span=HEADS, default=heads)
    f.divides("num_key_value_heads", kv_heads, "num_attention_heads", heads)
    head_dim = f.optional_size("head_dim")
    if head_dim is None:
        head_dim = f.divides("num_attention_heads", heads, "hidden_size", hidden_size)
    return Attention(
        kind=AttentionKind.FULL, num_heads=heads, num_kv_heads=kv_heads, head_dim=head_dim, v_head_dim=head_dim
    )


def with_window(shape: Attention, window: Window) -> Attention:
    """The same heads looking at a window."""
    if window == _FULL:
        return shape
    return Attention(
        kind=window[0],
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        v_head_dim=shape.v_head_dim,
        window=window[1],
    )


def read_windows(f: Fields, style: Style, num_layers: int) -> tuple[Window, ...]:
    """The attention kind and window of every layer."""
    window = f.optional_size("sliding_window", span=(1, POSITIONS[1])) or style.window
    types = f.texts("layer_types", num_layers, tuple(_KINDS))
    if types is not None:
        chunk = f.optional_size("attention_chunk_size", span=POSITIONS)
        return tuple(_typed_window(f, name, window, chunk) for name in types)
    if window is None:
        return (_FULL,) * num_layers
    slide = (AttentionKind.SLIDING, window)
    if style.slides is Slides.ALWAYS:
        return (slide,) * num_layers
    if style.slides is Slides.FLAGGED and f.flag("use_sliding_window", default=False):
        first = f.size("max_window_layers", span=(0, LAYERS[1]))
        return tuple(slide if index >= first else _FULL for index in range(num_layers))
    if style.slides is Slides.MOST:
        period = f.size("sliding_window_pattern", "_sliding_window_pattern", span=LAYERS, default=style.period)
        return tuple(slide if (index + 1) % period else _FULL for index in range(num_layers))
    return (_FULL,) * num_layers


def _typed_window(f: Fields, name: str, window: int | None, chunk: int | None) -> Window:
    kind = _KINDS[name]
    if kind is AttentionKind.SLIDING:
        return (kind, window if window is not None else f.missing("sliding_window"))
    if kind is AttentionKind.CHUNKED:
        return (kind, chunk if chunk is not None else f.missing("attention_chunk_size"))
    return _FULL


def qk_norm_params(shape: Attention, kind: QkNorm, *, layer_norm: bool = False) -> int:
    """Parameters of the norms on queries and keys."""
    widths = {
        QkNorm.NONE: 0,
        QkNorm.HEAD: 2 * shape.head_dim,
        QkNorm.WIDTH: shape.q_width + shape.k_width,
        QkNorm.EACH_HEAD: shape.q_width + shape.k_width,
    }
    return widths[kind] * (2 if layer_norm else 1)


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
        norm_params=qk_norm_params(shape, style.qk_norm) if qk_norm else 0,
    )


def read_dense_feed(f: Fields, style: Style, hidden_size: int, width: int | None = None) -> Feed:
    """The dense MLP of one layer."""
    return dense_feed(
        hidden_size,
        f.size("intermediate_size") if width is None else width,
        style.mlp_names,
        gated=f.flag("gated_mlp", default=style.gated),
        bias=f.flag(style.mlp_bias_key, "mlp_bias", default=style.mlp_bias),
    )


def decoder_spec(f: Fields, style: Style, trunk: Trunk, layers: tuple[Layer, ...], *, position_params: int = 0) -> ModelSpec:
    """A whole decoder around its layers."""
    hidden, vocab = trunk.hidden_size, trunk.vocab_size
    return ModelSpec(
        model_type=f.model_type,
        hidden_size=hidden,
        vocab_size=vocab,
        max_position_embeddings=f.optional_size("max_position_embeddings", span=POSITIONS),
        layers=layers,
        embedding_params=hidden * vocab,
        position_params=position_params,
        final_norm_params=trunk.norm_params,
        head=head(hidden, vocab, bias=style.head_bias),
        tie_word_embeddings=f.flag("tie_word_embeddings", default=style.tie),
        norm=trunk.norm,
        hidden_act=f.text("hidden_act", "hidden_activation", default=style.hidden_act),
        position_embedding=style.position,
        logit_soft_cap=f.has("final_logit_softcapping"),
        parallel_residual=style.parallel,
    )


def build_decoder(f: Fields, style: Style, feeds: Callable[[Fields, Style, int], tuple[Feed, ...]] | None = None) -> ModelSpec:
    """A decoder whose layers differ only in window and feed-forward part.

    Args:
        f: The config.
        style: The family.
        feeds: Returns the feed-forward part of every layer; dense everywhere when None.
    """
    trunk = read_trunk(f, style)
    hidden = trunk.hidden_size
    shape = read_heads(f, hidden)
    if feeds is None:
        feed = read_dense_feed(f, style, hidden)
        parts: tuple[Feed, ...] = (feed,) * trunk.num_layers
    else:
        parts = feeds(f, style, trunk.num_layers)
    windows = read_windows(f, style, trunk.num_layers)
    mixers = {window: read_mixer(f, style, hidden, with_window(shape, window)) for window in dict.fromkeys(windows)}
    by_id = {id(part): part for part in parts}
    norm_params = style.norms * trunk.norm_params

    def make(key: tuple[Window, int]) -> Layer:
        return join(mixers[key[0]], by_id[key[1]], norm_params)

    layers = share([(window, id(part)) for window, part in zip(windows, parts, strict=True)], make)
    return decoder_spec(f, style, trunk, layers)
