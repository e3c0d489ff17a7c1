"""MPT, OPT, ChatGLM and the first Qwen: relatives of GPT-2 with rules of their own.

Source: the modeling files of transformers 5.24; llm-foundry for what its MPT has beyond them; ChatGLM's
repository.
"""

from collections.abc import Callable
from dataclasses import replace

from planner.model.decoder import grouped, read_norm, stack
from planner.model.fields import HEADS, LAYERS, POSITIONS, VOCAB, Fields
from planner.model.gpt import NEW_KEYS, OUT_PROJ, QUERY_KEY_VALUE, STYLE, Body, Keys, read_body
from planner.model.parts import AttentionNames, Mixer, MlpNames, attention_matrices, dense_feed, head
from planner.model.spec import ModelSpec
from planner.model.style import Style

_NO_NORM_BIAS = Style(norm="layer_norm", norm_bias=False)
_MPT = Keys(
    hidden=("d_model", "hidden_size"),
    heads=("n_heads", "num_attention_heads"),
    layers=("n_layers", "num_hidden_layers"),
    width=("intermediate_size",),
)


def mpt(f: Fields) -> ModelSpec:
    """MPT; biases and learned positions, which only llm-foundry's class has, if the config says so."""
    attention = f.nested("attn_config") if f.has("attn_config") else None
    kind, kv_key = "multihead_attention", None
    alibi = True
    if attention is not None:
        kinds = ("multihead_attention", "multiquery_attention", "grouped_query_attention")
        kind = attention.text("attn_type", default=kind, allowed=kinds)
        kv_key = attention.optional_size("kv_n_heads", span=HEADS)
        alibi = attention.flag("alibi", default=True)
        if attention.flag("qk_ln", default=False):
            attention.unsupported("qk_ln", value=True)
    elif f.has("learned_pos_emb"):
        alibi = not f.flag("learned_pos_emb", default=False)
    bias = not f.flag("no_bias", default=True)
    factor = f.size("expansion_ratio", default=4)

    def kv_heads(heads: int) -> int:
        if kind == "grouped_query_attention":
            return kv_key or f.missing("attn_config.kv_n_heads")
        return 1 if kind == "multiquery_attention" else heads

    body = read_body(
        f,
        _MPT,
        AttentionNames(fused="Wqkv", output="out_proj"),
        MlpNames(up="up_proj", down="down_proj"),
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=bias,
        kv_heads=kv_heads,
        width_factor=factor,
        style=STYLE if bias else _NO_NORM_BIAS,
    )
    positions = f.optional_size("max_seq_len", "max_position_embeddings", span=POSITIONS)
    learned = not alibi and f.flag("learned_pos_emb", default=False)
    if learned and positions is None:
        f.missing("max_seq_len")
    return body.spec(
        f,
        positions=positions,
        act="gelu",
        position="learned" if learned else "alibi",
        tie=True,
        position_params=body.hidden * positions if learned and positions else 0,
    )


def opt(f: Fields) -> ModelSpec:
    """OPT: two more positions than named; the 350M one has a narrower embedding and no last norm."""
    bias = f.flag("enable_bias", default=True)
    style = Style(norm="layer_norm", norm_weight=f.flag("layer_norm_elementwise_affine", default=True))
    body = read_body(
        f,
        NEW_KEYS,
        OUT_PROJ,
        MlpNames(up="fc1", down="fc2"),
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=bias,
        style=style,
        width_factor=None,
    )
    positions = f.size("max_position_embeddings", span=POSITIONS)
    narrow = f.size("word_embed_proj_dim", default=body.hidden)
    last_norm = f.flag("do_layer_norm_before", default=True)
    last_norm = last_norm and not f.flag("_remove_final_layer_norm", default=False)
    spec = body.spec(f, positions=positions, act="relu", position="learned", tie=True)
    return replace(
        spec,
        embedding_params=body.vocab * narrow,
        position_params=(positions + 2) * body.hidden
        + (2 * narrow * body.hidden if narrow != body.hidden else 0),
        final_norm_params=body.norm_params if last_norm else 0,
        head=head(narrow, body.vocab),
    )


def chatglm(f: Fields) -> ModelSpec:
    """ChatGLM2 and 3: gated MLP in one matrix, biases on query, key and value only."""
    hidden = f.size("hidden_size")
    heads = f.size("num_attention_heads", span=HEADS)
    vocab = f.size("padded_vocab_size", "vocab_size", span=VOCAB)
    count = f.size("num_layers", "num_hidden_layers", span=LAYERS)
    width = f.size("ffn_hidden_size")
    head_dim = f.size("kv_channels")
    kv = heads
    if f.flag("multi_query_attention", default=False):
        kv = f.size("multi_query_group_num", span=HEADS)
        f.divides("multi_query_group_num", kv, "num_attention_heads", heads)
    norm, norm_params = read_norm(f, Style() if f.flag("rmsnorm", default=True) else STYLE, hidden)
    bias = f.flag("add_bias_linear", default=False)
    shape = grouped(heads, kv, head_dim)
    qkv_bias = bias or f.flag("add_qkv_bias", default=False)
    mixer = Mixer(
        shape=shape,
        linears=attention_matrices(hidden, shape, QUERY_KEY_VALUE, qkv_bias=qkv_bias, output_bias=bias),
    )
    names = MlpNames(fused="dense_h_to_4h", down="dense_4h_to_h")
    feed = dense_feed(hidden, width, names, gated=True, bias=bias)
    layers = stack([mixer] * count, [feed] * count, 2 * norm_params)
    body = Body(hidden=hidden, vocab=vocab, layers=layers, norm=norm, norm_params=norm_params)
    return body.spec(
        f,
        positions=f.optional_size("seq_length", span=POSITIONS),
        act="silu",
        position="rope",
        tie=False,
        head_name="output_layer",
    )


def qwen(f: Fields) -> ModelSpec:
    """The first Qwen: `intermediate_size` counts gate and up together, biases on `c_attn` only."""
    hidden = f.size("hidden_size")
    heads = f.size("num_attention_heads", span=HEADS)
    vocab = f.size("vocab_size", span=VOCAB)
    count = f.size("num_hidden_layers", span=LAYERS)
    width = f.divides("2", 2, "intermediate_size", f.size("intermediate_size"))
    head_dim = f.optional_size("kv_channels", "head_dim")
    if head_dim is None:
        head_dim = f.divides("num_attention_heads", heads, "hidden_size", hidden)
    bias = not f.flag("no_bias", default=True)
    norm, norm_params = read_norm(f, Style(), hidden)
    shape = grouped(heads, heads, head_dim)
    names = AttentionNames(fused="c_attn", output="c_proj")
    mixer = Mixer(
        shape=shape,
        linears=attention_matrices(hidden, shape, names, qkv_bias=True, output_bias=bias),
    )
    feed = dense_feed(hidden, width, MlpNames(gate="w2", up="w1", down="c_proj"), gated=True, bias=bias)
    layers = stack([mixer] * count, [feed] * count, 2 * norm_params)
    body = Body(hidden=hidden, vocab=vocab, layers=layers, norm=norm, norm_params=norm_params)
    return body.spec(
        f,
        positions=f.optional_size("max_position_embeddings", "seq_length", span=POSITIONS),
        act="silu",
        position="rope",
        tie=False,
    )


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "mpt": mpt,
    "opt": opt,
    "chatglm": chatglm,
    "qwen": qwen,
}
