"""Encoders: BERT and its relatives, ViT, DINOv2, wav2vec 2.0.

Each is described as the base class that `AutoModel` gives: BERT with its pooler and without a
language-model head. An image classifier is described where the config says so (`architectures`,
`num_labels`). Source: the modeling files of transformers 5.24.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from planner.model.decoder import grouped, stack
from planner.model.fields import HEADS, LAYERS, POSITIONS, VOCAB, Fields
from planner.model.parts import AttentionNames, Mixer, MlpNames, attention_matrices, dense_feed, join
from planner.model.spec import AttentionKind, Block, Layer, ModelSpec, Structure

_BERT_ATTENTION = AttentionNames(query="query", key="key", value="value", output="attention.output.dense")
_BERT_MLP = MlpNames(up="intermediate.dense", down="output.dense")
_DISTIL_ATTENTION = AttentionNames(query="q_lin", key="k_lin", value="v_lin", output="out_lin")
_FC = MlpNames(up="fc1", down="fc2")
_OUT_PROJ = AttentionNames(output="out_proj")
IMAGE = (1, 100_000)


def encoder_layer(
    hidden: int,
    heads: int,
    width: int,
    names: AttentionNames = _OUT_PROJ,
    mlp_names: MlpNames = _FC,
    *,
    qkv_bias: bool = True,
    gated: bool = False,
    vector_params: int = 0,
) -> Layer:
    """A layer with biases everywhere and two layer norms; `hidden` must be a multiple of `heads`.

    Args:
        hidden: Residual width.
        heads: Heads, which divide it.
        width: Of the feed-forward part.
        names: Of the projections.
        mlp_names: Of the feed-forward matrices.
        qkv_bias: Whether query, key and value have one.
        gated: Whether the feed-forward part is gated.
        vector_params: Neither matrix nor norm.
    """
    shape = grouped(heads, heads, hidden // heads)
    mixer = Mixer(
        shape=shape, linears=attention_matrices(hidden, shape, names, qkv_bias=qkv_bias, output_bias=True)
    )
    feed = dense_feed(hidden, width, mlp_names, gated=gated, bias=True)
    return join(mixer, feed, 4 * hidden, vector_params)


def _bert(f: Fields, *, pooler: bool = True) -> ModelSpec:
    hidden = f.size("hidden_size")
    heads = f.size("num_attention_heads", span=HEADS)
    f.divides("num_attention_heads", heads, "hidden_size", hidden)
    count = f.size("num_hidden_layers", span=LAYERS)
    vocab = f.size("vocab_size", span=VOCAB)
    positions = f.size("max_position_embeddings", span=POSITIONS)
    types = f.size("type_vocab_size", span=(0, 1_000))
    layer = encoder_layer(hidden, heads, f.size("intermediate_size"), _BERT_ATTENTION, _BERT_MLP)
    blocks = (Block(name="pooler", params=hidden * hidden + hidden, stage="last"),) if pooler else ()
    return ModelSpec(
        model_type=f.model_type,
        structure=Structure.ENCODER,
        hidden_size=hidden,
        vocab_size=vocab,
        max_position_embeddings=positions,
        layers=(layer,) * count,
        embedding_params=hidden * vocab,
        position_params=hidden * (positions + types + 2),
        blocks=blocks,
        norm="layer_norm",
        hidden_act=f.text("hidden_act", default="gelu"),
        position_embedding="learned",
    )


def bert(f: Fields) -> ModelSpec:
    """BERT, RoBERTa, XLM-RoBERTa."""
    return _bert(f)


def electra(f: Fields) -> ModelSpec:
    """ELECTRA: BERT without a pooler, its embedding maybe narrower than the layers."""
    spec = _bert(f, pooler=False)
    hidden, narrow = spec.hidden_size, f.size("embedding_size", default=spec.hidden_size)
    if narrow == hidden:
        return spec
    rows = spec.position_params // hidden
    return replace(
        spec,
        embedding_params=narrow * spec.vocab_size,
        position_params=narrow * rows + narrow * hidden + hidden,
    )


def distilbert(f: Fields) -> ModelSpec:
    """DistilBERT: no token types, no pooler."""
    hidden = f.size("dim", "hidden_size")
    heads = f.size("n_heads", "num_attention_heads", span=HEADS)
    f.divides("n_heads", heads, "dim", hidden)
    count = f.size("n_layers", "num_hidden_layers", span=LAYERS)
    vocab = f.size("vocab_size", span=VOCAB)
    positions = f.size("max_position_embeddings", span=POSITIONS)
    layer = encoder_layer(
        hidden,
        heads,
        f.size("hidden_dim", "intermediate_size"),
        _DISTIL_ATTENTION,
        MlpNames(up="lin1", down="lin2"),
    )
    return ModelSpec(
        model_type=f.model_type,
        structure=Structure.ENCODER,
        hidden_size=hidden,
        vocab_size=vocab,
        max_position_embeddings=positions,
        layers=(layer,) * count,
        embedding_params=hidden * vocab,
        position_params=hidden * (positions + 2),
        norm="layer_norm",
        hidden_act=f.text("activation", "hidden_act", default="gelu"),
        position_embedding="learned",
    )


def modernbert(f: Fields) -> ModelSpec:
    """ModernBERT: rotary, gated, no first norm in the first layer, two of three layers local."""
    hidden = f.size("hidden_size")
    heads = f.size("num_attention_heads", span=HEADS)
    head_dim = f.divides("num_attention_heads", heads, "hidden_size", hidden)
    count = f.size("num_hidden_layers", span=LAYERS)
    vocab = f.size("vocab_size", span=VOCAB)
    period = f.size("global_attn_every_n_layers", span=LAYERS, default=3)
    kinds = f.texts("layer_types", count, ("full_attention", "sliding_attention"))
    if kinds is None:
        kinds = tuple("sliding_attention" if index % period else "full_attention" for index in range(count))
    local = f.size("local_attention", span=POSITIONS, default=128)
    norm = hidden * (2 if f.flag("norm_bias", default=False) else 1)
    bias = f.flag("attention_bias", default=False)
    names = AttentionNames(fused="Wqkv", output="Wo")
    full = grouped(heads, heads, head_dim)
    made = {}
    for kind in dict.fromkeys(kinds):
        shape = full
        if kind == "sliding_attention":
            shape = replace(full, kind=AttentionKind.SLIDING, window=local)
        made[kind] = Mixer(
            shape=shape, linears=attention_matrices(hidden, shape, names, qkv_bias=bias, output_bias=bias)
        )
    mlp_names = MlpNames(fused="Wi", down="Wo")
    feed = dense_feed(
        hidden, f.size("intermediate_size"), mlp_names, gated=True, bias=f.flag("mlp_bias", default=False)
    )
    layers = stack([made[kind] for kind in kinds], [feed] * count, 2 * norm)
    first = replace(layers[0], norm_params=layers[0].norm_params - norm)
    return ModelSpec(
        model_type=f.model_type,
        structure=Structure.ENCODER,
        hidden_size=hidden,
        vocab_size=vocab,
        max_position_embeddings=f.optional_size("max_position_embeddings", span=POSITIONS),
        layers=(first, *layers[1:]),
        embedding_params=hidden * vocab,
        position_params=norm,
        final_norm_params=norm,
        norm="layer_norm",
        hidden_act=f.text("hidden_activation", "hidden_act", default="gelu"),
    )


def patches(f: Fields) -> int:
    """Patches of an image."""
    image, patch = f.size("image_size", span=IMAGE), f.size("patch_size", span=IMAGE)
    if patch > image:
        f.refuse("patch_size", patch, f"at most image_size={image}")
    return (image // patch) ** 2


def patch_params(f: Fields, hidden: int, *, bias: bool) -> int:
    """The convolution that turns a patch into a token."""
    patch, channels = f.size("patch_size", span=IMAGE), f.size("num_channels", span=IMAGE, default=3)
    return hidden * channels * patch * patch + (hidden if bias else 0)


def _labels(f: Fields) -> int:
    """Classes of an image classifier, 0 if the config describes none."""
    explicit = f.optional_size("num_labels", span=(1, 10**6))
    architectures = f.config.get("architectures")
    classifies = isinstance(architectures, list | tuple) and any(
        isinstance(name, str) and name.endswith("ForImageClassification") for name in architectures
    )
    if explicit is not None:
        return explicit
    if not classifies:
        return 0
    labels = f.config.get("id2label")
    return len(labels) if isinstance(labels, Mapping) else 2


def vit(f: Fields) -> ModelSpec:
    """ViT, with its pooler or with a classifier in its place."""
    hidden = f.size("hidden_size")
    heads = f.size("num_attention_heads", span=HEADS)
    f.divides("num_attention_heads", heads, "hidden_size", hidden)
    count = f.size("num_hidden_layers", span=LAYERS)
    layer = encoder_layer(
        hidden,
        heads,
        f.size("intermediate_size"),
        AttentionNames(),
        qkv_bias=f.flag("qkv_bias", default=True),
    )
    labels = _labels(f)
    pooled = f.size("pooler_output_size", default=hidden)
    last = (
        Block(name="classifier", params=hidden * labels + labels, stage="last")
        if labels
        else Block(name="pooler", params=hidden * pooled + pooled, stage="last")
    )
    return _image_spec(f, hidden, (layer,) * count, tokens=patches(f) + 1, extra=0, last=(last,))


def dinov2(f: Fields) -> ModelSpec:
    """DINOv2: a scale per width on both halves of a layer; the giant one is gated."""
    hidden = f.size("hidden_size")
    heads = f.size("num_attention_heads", span=HEADS)
    f.divides("num_attention_heads", heads, "hidden_size", hidden)
    count = f.size("num_hidden_layers", span=LAYERS)
    gated = f.flag("use_swiglu_ffn", default=False)
    ratio = f.number("mlp_ratio", span=(0.1, 64.0), default=4.0)
    width = int(hidden * ratio)
    if gated:
        width = (int(width * 2 / 3) + 7) // 8 * 8
    width = f.size("intermediate_size", default=width)
    mlp_names = MlpNames() if gated else _FC
    layer = encoder_layer(
        hidden,
        heads,
        width,
        AttentionNames(),
        mlp_names,
        qkv_bias=f.flag("qkv_bias", default=True),
        gated=gated,
        vector_params=2 * hidden,
    )
    labels = _labels(f)
    last = (Block(name="classifier", params=2 * hidden * labels + labels, stage="last"),) if labels else ()
    mask = hidden if f.flag("use_mask_token", default=True) else 0
    return _image_spec(f, hidden, (layer,) * count, tokens=patches(f) + 1, extra=mask, last=last)


def _image_spec(
    f: Fields, hidden: int, layers: tuple[Layer, ...], *, tokens: int, extra: int, last: tuple[Block, ...]
) -> ModelSpec:
    front = patch_params(f, hidden, bias=True) + hidden * tokens + hidden + extra
    return ModelSpec(
        model_type=f.model_type,
        structure=Structure.ENCODER,
        hidden_size=hidden,
        vocab_size=0,
        max_position_embeddings=tokens,
        layers=layers,
        embedding_params=0,
        final_norm_params=2 * hidden,
        blocks=(Block(name="patch_embedding", params=front), *last),
        norm="layer_norm",
        hidden_act=f.text("hidden_act", default="gelu"),
        position_embedding="learned",
    )


def wav2vec2(f: Fields) -> ModelSpec:
    """wav2vec 2.0: a stack of convolutions, a grouped convolution for positions, then a BERT-like encoder."""
    hidden = f.size("hidden_size")
    heads = f.size("num_attention_heads", span=HEADS)
    f.divides("num_attention_heads", heads, "hidden_size", hidden)
    count = f.size("num_hidden_layers", span=LAYERS)
    if f.flag("add_adapter", default=False):
        f.unsupported("add_adapter", value=True)
    layer = encoder_layer(
        hidden,
        heads,
        f.size("intermediate_size"),
        mlp_names=MlpNames(up="intermediate_dense", down="output_dense"),
    )
    blocks = (
        Block(name="audio_frontend", params=_wav2vec2_frontend(f, hidden)),
        Block(name="position_convolution", params=_wav2vec2_positions(f, hidden)),
    )
    return ModelSpec(
        model_type=f.model_type,
        structure=Structure.ENCODER,
        hidden_size=hidden,
        vocab_size=0,
        layers=(layer,) * count,
        embedding_params=0,
        final_norm_params=2 * hidden,
        blocks=blocks,
        norm="layer_norm",
        hidden_act=f.text("hidden_act", default="gelu"),
        position_embedding="none",
    )


def _wav2vec2_frontend(f: Fields, hidden: int) -> int:
    dims = f.sizes("conv_dim", None) or (512,) * 7
    kernels = f.sizes("conv_kernel", len(dims)) or (10, 3, 3, 3, 3, 2, 2)
    if len(kernels) != len(dims) or not dims:
        f.refuse("conv_dim", f"{len(dims)} items", f"{len(kernels)} items")
    bias = f.flag("conv_bias", default=False)
    norm = f.text("feat_extract_norm", default="group", allowed=("group", "layer"))
    total, before = 0, 1
    for index, (dim, kernel) in enumerate(zip(dims, kernels, strict=True)):
        total += before * dim * kernel + (dim if bias else 0)
        total += 2 * dim if norm == "layer" or index == 0 else 0
        before = dim
    masked = 0
    if f.number("mask_time_prob", span=(0.0, 1.0), default=0.05) or f.number(
        "mask_feature_prob", span=(0.0, 1.0), default=0.0
    ):
        masked = hidden
    return total + 2 * before + before * hidden + hidden + masked


def _wav2vec2_positions(f: Fields, hidden: int) -> int:
    kernel = f.size("num_conv_pos_embeddings", default=128)
    groups = f.size("num_conv_pos_embedding_groups", default=16)
    width = f.divides("num_conv_pos_embedding_groups", groups, "hidden_size", hidden)
    return hidden * width * kernel + kernel + hidden


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "bert": bert,
    "roberta": bert,
    "xlm-roberta": bert,
    "electra": electra,
    "distilbert": distilbert,
    "modernbert": modernbert,
    "vit": vit,
    "dinov2": dinov2,
    "wav2vec2": wav2vec2,
}
