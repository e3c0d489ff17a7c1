"""GPT-2 and its relatives: layer norms, plain MLPs, fused projections, learned or rotary positions."""

from collections.abc import Callable

from planner.model.decoder import read_norm
from planner.model.fields import HEADS, LAYERS, POSITIONS, VOCAB, Fields
from planner.model.parts import AttentionNames, MlpNames, attention_matrices, dense_feed, head, join, Mixer
from planner.model.spec import Attention, AttentionKind, ModelSpec
from planner.model.style import Style

_GPT2 = Style(norm="layer_norm")
_C_ATTN = AttentionNames(fused="c_attn", output="c_proj")
_C_FC = MlpNames(up="c_fc", down="c_proj")
_QUERY_KEY_VALUE = AttentionNames(fused="query_key_value", output="dense")
_H_TO_4H = MlpNames(up="dense_h_to_4h", down="dense_4h_to_h")


def gpt2(f: Fields) -> ModelSpec:
    """GPT-2."""
    hidden = f.size("n_embd", "hidden_size")
    heads = f.size("n_head", "num_attention_heads", span=HEADS)
    vocab = f.size("vocab_size", span=VOCAB)
    layers = f.size("n_layer", "num_hidden_layers", span=LAYERS)
    positions = f.size("n_positions", "max_position_embeddings", span=POSITIONS)
    width = f.size("n_inner", "intermediate_size", default=4 * hidden)
    head_dim = f.divides("n_head", heads, "n_embd", hidden)
    shape = Attention(
        kind=AttentionKind.FULL, num_heads=heads, num_kv_heads=heads, head_dim=head_dim, v_head_dim=head_dim
    )
    norm, norm_params = read_norm(f, _GPT2, hidden)
    mixer = Mixer(shape=shape, linears=attention_matrices(hidden, shape, _C_ATTN, qkv_bias=True, output_bias=True))
    feed = dense_feed(hidden, width, _C_FC, gated=False, bias=True)
    layer = join(mixer, feed, 2 * norm_params)
    return ModelSpec(
        model_type=f.model_type,
        hidden_size=hidden,
        vocab_size=vocab,
        max_position_embeddings=positions,
        layers=(layer,) * layers,
        embedding_params=hidden * vocab,
        position_params=hidden * positions,
        final_norm_params=norm_params,
        head=head(hidden, vocab),
        tie_word_embeddings=f.flag("tie_word_embeddings", default=True),
        norm=norm,
        hidden_act=f.text("activation_function", default="gelu_new"),
        position_embedding="learned",
    )


def gpt_neox(f: Fields) -> ModelSpec:
    """GPT-NeoX and Pythia."""
    hidden = f.size("hidden_size")
    heads = f.size("num_attention_heads", span=HEADS)
    vocab = f.size("vocab_size", span=VOCAB)
    layers = f.size("num_hidden_layers", span=LAYERS)
    width = f.size("intermediate_size")
    head_dim = f.divides("num_attention_heads", heads, "hidden_size", hidden)
    shape = Attention(
        kind=AttentionKind.FULL, num_heads=heads, num_kv_heads=heads, head_dim=head_dim, v_head_dim=head_dim
    )
    bias = f.flag("attention_bias", default=True)
    norm, norm_params = read_norm(f, _GPT2, hidden)
    mixer = Mixer(
        shape=shape, linears=attention_matrices(hidden, shape, _QUERY_KEY_VALUE, qkv_bias=bias, output_bias=bias)
    )
    feed = dense_feed(hidden, width, _H_TO_4H, gated=False, bias=f.flag("mlp_bias", default=True))
    layer = join(mixer, feed, 2 * norm_params)
    return ModelSpec(
        model_type=f.model_type,
        hidden_size=hidden,
        vocab_size=vocab,
        max_position_embeddings=f.optional_size("max_position_embeddings", span=POSITIONS),
        layers=(layer,) * layers,
        embedding_params=hidden * vocab,
        final_norm_params=norm_params,
        head=head(hidden, vocab, name="embed_out"),
        tie_word_embeddings=f.flag("tie_word_embeddings", default=False),
        norm=norm,
        hidden_act=f.text("hidden_act", default="gelu"),
        parallel_residual=f.flag("use_parallel_residual", default=True),
    )


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {"gpt2": gpt2, "gpt_neox": gpt_neox}
