"""Encoder-decoders: T5, BART and Whisper.

Source: the modeling files of transformers 5.24.
"""

from collections.abc import Callable
from dataclasses import replace

from planner.model.decoder import grouped
from planner.model.fields import HEADS, LAYERS, POSITIONS, VOCAB, Fields
from planner.model.parts import AttentionNames, Mixer, MlpNames, attention_matrices, dense_feed, head, join
from planner.model.spec import Attention, Block, Layer, Linear, ModelSpec, Structure

_T5_ATTENTION = AttentionNames(query="q", key="k", value="v", output="o")
_WHISPER_ATTENTION = AttentionNames(output="out_proj")
_CROSS = "encoder_attn."


def t5(f: Fields) -> ModelSpec:
    """T5, mT5 and UMT5: relative positions, held once per stack (UMT5: in every layer), no biases."""
    hidden = f.size("d_model", "hidden_size")
    heads = f.size("num_heads", "num_attention_heads", span=HEADS)
    width = f.size("d_ff", "intermediate_size")
    encoders = f.size("num_layers", "num_hidden_layers", span=LAYERS)
    decoders = f.size("num_decoder_layers", span=LAYERS, default=encoders)
    vocab = f.size("vocab_size", span=VOCAB)
    form = f.text("feed_forward_proj", default="relu")
    gated = form.startswith("gated-")
    names = MlpNames(gate="wi_0", up="wi_1" if gated else "wi", down="wo")
    feed = dense_feed(hidden, width, names, gated=gated)
    shape = grouped(heads, heads, f.size("d_kv"))
    mixer = _t5_mixer(hidden, shape)
    cross = _t5_mixer(hidden, shape, "EncDecAttention.")
    bias = heads * f.size("relative_attention_num_buckets", default=32)
    encoder, decoder = join(mixer, feed, 2 * hidden), join(mixer, feed, 3 * hidden, cross=cross)
    everywhere = f.model_type == "umt5"
    return ModelSpec(
        model_type=f.model_type,
        structure=Structure.ENCODER_DECODER,
        hidden_size=hidden,
        vocab_size=vocab,
        max_position_embeddings=None,
        layers=_with_bias(decoder, decoders, bias, everywhere=everywhere),
        encoder_layers=_with_bias(encoder, encoders, bias, everywhere=everywhere),
        embedding_params=hidden * vocab,
        final_norm_params=2 * hidden,
        head=head(hidden, vocab),
        tie_word_embeddings=f.flag("tie_word_embeddings", default=True),
        hidden_act=f.text("dense_act_fn", default="gelu_new" if gated else form),
        position_embedding="relative",
    )


def _t5_mixer(hidden: int, shape: Attention, prefix: str = "") -> Mixer:
    return Mixer(shape=shape, linears=_renamed(attention_matrices(hidden, shape, _T5_ATTENTION), prefix))


def _renamed(linears: tuple[Linear, ...], prefix: str) -> tuple[Linear, ...]:
    if not prefix:
        return linears
    return tuple(replace(linear, name=prefix + linear.name) for linear in linears)


def _with_bias(layer: Layer, count: int, params: int, *, everywhere: bool) -> tuple[Layer, ...]:
    biased = replace(layer, vector_params=layer.vector_params + params)
    return (biased,) * count if everywhere else (biased, *(layer,) * (count - 1))


def bart(f: Fields) -> ModelSpec:
    """BART and mBART: two more positions than named, norms on the embeddings, mBART with last norms too."""
    hidden = f.size("d_model", "hidden_size")
    vocab = f.size("vocab_size", span=VOCAB)
    positions = f.size("max_position_embeddings", span=POSITIONS)
    encoder = _biased_layer(f, hidden, "encoder", cross=False, key_bias=True)
    decoder = _biased_layer(f, hidden, "decoder", cross=True, key_bias=True)
    last_norms = 4 * hidden if f.model_type == "mbart" else 0
    return ModelSpec(
        model_type=f.model_type,
        structure=Structure.ENCODER_DECODER,
        hidden_size=hidden,
        vocab_size=vocab,
        max_position_embeddings=positions,
        layers=(decoder,) * f.size("decoder_layers", span=LAYERS),
        encoder_layers=(encoder,) * f.size("encoder_layers", span=LAYERS),
        embedding_params=hidden * vocab,
        position_params=2 * hidden * (positions + 2) + 4 * hidden,
        final_norm_params=last_norms,
        head=head(hidden, vocab),
        tie_word_embeddings=f.flag("tie_word_embeddings", default=True),
        norm="layer_norm",
        hidden_act=f.text("activation_function", default="gelu"),
        position_embedding="learned",
    )


def whisper(f: Fields) -> ModelSpec:
    """Whisper: two convolutions in front, learned positions on both sides, no bias on keys."""
    hidden = f.size("d_model", "hidden_size")
    vocab = f.size("vocab_size", span=VOCAB)
    mels = f.size("num_mel_bins")
    sources = f.size("max_source_positions", span=POSITIONS, default=1_500)
    targets = f.size("max_target_positions", span=POSITIONS, default=448)
    encoder = _biased_layer(f, hidden, "encoder", cross=False, key_bias=False)
    decoder = _biased_layer(f, hidden, "decoder", cross=True, key_bias=False)
    front = hidden * mels * 3 + hidden + hidden * hidden * 3 + hidden
    return ModelSpec(
        model_type=f.model_type,
        structure=Structure.ENCODER_DECODER,
        hidden_size=hidden,
        vocab_size=vocab,
        max_position_embeddings=targets,
        layers=(decoder,) * f.size("decoder_layers", span=LAYERS),
        encoder_layers=(encoder,) * f.size("encoder_layers", "num_hidden_layers", span=LAYERS),
        embedding_params=hidden * vocab,
        position_params=hidden * (sources + targets),
        final_norm_params=4 * hidden,
        head=head(hidden, vocab, name="proj_out"),
        tie_word_embeddings=f.flag("tie_word_embeddings", default=True),
        blocks=(Block(name="audio_frontend", params=front),),
        norm="layer_norm",
        hidden_act=f.text("activation_function", default="gelu"),
        position_embedding="learned",
    )


def _biased_layer(f: Fields, hidden: int, side: str, *, cross: bool, key_bias: bool) -> Layer:
    heads = f.size(f"{side}_attention_heads", "num_attention_heads", span=HEADS)
    width = f.size(f"{side}_ffn_dim", "intermediate_size")
    shape = grouped(heads, heads, f.divides(f"{side}_attention_heads", heads, "d_model", hidden))
    linears = attention_matrices(hidden, shape, _WHISPER_ATTENTION, qkv_bias=True, output_bias=True)
    if not key_bias:
        linears = tuple(
            replace(linear, bias_features=0) if linear.name == "k_proj" else linear for linear in linears
        )
    feed = dense_feed(hidden, width, MlpNames(up="fc1", down="fc2"), gated=False, bias=True)
    mixer = Mixer(shape=shape, linears=linears)
    if not cross:
        return join(mixer, feed, 4 * hidden)
    other = Mixer(shape=shape, linears=_renamed(linears, _CROSS))
    return join(mixer, feed, 6 * hidden, cross=other)


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "t5": t5,
    "mt5": t5,
    "umt5": t5,
    "bart": bart,
    "mbart": bart,
    "whisper": whisper,
}
