"""Mixtures of experts whose layers differ from Mixtral's in more than names.

Source: the modeling files of transformers 5.24.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.model.decoder import (
    FULL,
    Window,
    build_decoder,
    decoder_spec,
    grouped,
    read_dense_feed,
    read_heads,
    read_mixer,
    read_norm,
    read_trunk,
    read_windows,
    stack,
    with_window,
)
from planner.model.fields import EXPERTS, HEADS, LAYERS, POSITIONS, VOCAB, WIDTH, Fields
from planner.model.moe import deepseek_feeds, mix_feeds, read_routing, sparse_layers
from planner.model.parts import (
    AttentionNames,
    Feed,
    Mixer,
    MlpNames,
    attention_matrices,
    head,
    matrix,
    moe_feed,
)
from planner.model.spec import AttentionKind, ModelSpec, Part, Split
from planner.model.style import Style

_GATE_UP = MlpNames(fused="gate_up_proj")
_M3_SPARSE = "minimax_m3_sparse"


def ernie4_5_moe(f: Fields) -> ModelSpec:
    """ERNIE 4.5: the router's correction bias is trained."""
    style = Style(tie=True, bias_key="use_bias", mlp_bias_key="use_bias")

    def feeds(g: Fields, s: Style, num_layers: int) -> Sequence[Feed]:
        first = g.size("moe_layer_start_index", span=(0, LAYERS[1]), default=1)
        last = g.size("moe_layer_end_index", span=(-1, LAYERS[1]), default=-1)
        step = g.size("moe_layer_interval", span=LAYERS, default=1)
        last = num_layers - 1 if last == -1 else last
        sparse = [first <= index <= last and (index + 1) % step == 0 for index in range(num_layers)]
        return mix_feeds(
            sparse, lambda: read_dense_feed(g, s, g.size("hidden_size")), lambda: _ernie_experts(g, s)
        )

    return build_decoder(f, style, feeds)


def _ernie_experts(f: Fields, style: Style) -> Feed:
    experts, top = read_routing(f, ("moe_num_experts",), ("moe_k",))
    width = f.size("moe_intermediate_size")
    if f.flag(style.mlp_bias_key, default=False):
        f.unsupported("use_bias", value=True)
    return moe_feed(
        f.size("hidden_size"),
        experts=experts,
        experts_per_token=top,
        width=width,
        shared_width=width * f.size("moe_num_shared_experts", span=(0, EXPERTS[1]), default=2),
        vector_params=experts,
    )


def dbrx(f: Fields) -> ModelSpec:
    """DBRX: sizes in nested objects, norms without biases."""
    attention, ffn = f.nested("attn_config"), f.nested("ffn_config")
    hidden = f.size("d_model")
    heads = f.size("n_heads", span=HEADS)
    kv = attention.size("kv_n_heads", span=HEADS)
    f.divides("attn_config.kv_n_heads", kv, "n_heads", heads)
    vocab = f.size("vocab_size", span=VOCAB)
    count = f.size("n_layers", span=LAYERS)
    norm, norm_params = read_norm(f, Style(norm="layer_norm", norm_bias=False), hidden)
    shape = grouped(heads, kv, f.divides("n_heads", heads, "d_model", hidden))
    names = AttentionNames(fused="Wqkv", output="out_proj")
    mixer = Mixer(shape=shape, linears=attention_matrices(hidden, shape, names))
    experts, top = read_routing(ffn, ("moe_num_experts",), ("moe_top_k",))
    feed = moe_feed(
        hidden,
        experts=experts,
        experts_per_token=top,
        width=ffn.size("ffn_hidden_size"),
        names=MlpNames(gate="w1", up="v1", down="w2"),
        router_name="router.layer",
    )
    return ModelSpec(
        model_type=f.model_type,
        hidden_size=hidden,
        vocab_size=vocab,
        max_position_embeddings=f.optional_size("max_seq_len", span=POSITIONS),
        layers=stack([mixer] * count, [feed] * count, 2 * norm_params),
        embedding_params=hidden * vocab,
        final_norm_params=norm_params,
        head=head(hidden, vocab),
        tie_word_embeddings=f.flag("tie_word_embeddings", default=False),
        norm=norm,
    )


def llama4_text(f: Fields) -> ModelSpec:
    """Llama 4: experts in every `interleave_moe_layer_step`-th layer, three of four layers in chunks."""
    style = Style()
    trunk = read_trunk(f, style)
    count = trunk.num_layers
    step = f.size("interleave_moe_layer_step", span=LAYERS, default=1)
    routed = f.sizes("moe_layers", None, span=(0, LAYERS[1]))
    sparse = [index in routed if routed is not None else (index + 1) % step == 0 for index in range(count)]
    feeds = mix_feeds(
        sparse,
        lambda: read_dense_feed(f, style, trunk.hidden_size, f.size("intermediate_size_mlp")),
        lambda: _llama4_experts(f),
    )
    shape = read_heads(f, trunk.hidden_size)
    made = {}
    for window in dict.fromkeys(windows := _llama4_windows(f, count)):
        made[window] = read_mixer(f, style, trunk.hidden_size, with_window(shape, window))
    layers = stack([made[window] for window in windows], feeds, 2 * trunk.norm_params)
    return decoder_spec(f, style, trunk, layers)


def _llama4_experts(f: Fields) -> Feed:
    experts, top = read_routing(f, ("num_local_experts",), ("num_experts_per_tok",))
    width = f.size("intermediate_size")
    return moe_feed(
        f.size("hidden_size"),
        experts=experts,
        experts_per_token=top,
        width=width,
        shared_width=width,
        names=_GATE_UP,
        router_name="router",
        shared_prefix="shared_expert.",
    )


def _llama4_windows(f: Fields, count: int) -> Sequence[Window]:
    if f.has("layer_types"):
        return read_windows(f, Style(window=8192), count)
    interval = f.size("no_rope_layer_interval", span=LAYERS, default=4)
    rope = f.sizes("no_rope_layers", count, span=(0, 1))
    if not rope:
        rope = tuple(int((index + 1) % interval != 0) for index in range(count))
    chunk = (AttentionKind.CHUNKED, f.size("attention_chunk_size", span=POSITIONS, default=8192))
    return [chunk if local else FULL for local in rope]


def mimo_v2_flash(f: Fields) -> ModelSpec:
    """MiMo-V2-Flash: narrower values; sliding layers with twice the key and value heads and a sink each."""
    style = Style(output_follows=False)
    trunk = read_trunk(f, style)
    count = trunk.num_layers
    full = replace(read_heads(f, trunk.hidden_size), v_head_dim=f.size("v_head_dim"))
    types = f.texts("layer_types", count, ("full_attention", "sliding_attention"))
    if types is None:
        types = tuple(
            "full_attention" if index == 0 or (index + 1) % 6 == 0 else "sliding_attention"
            for index in range(count)
        )
    window = f.size("sliding_window", span=POSITIONS, default=129)
    kv_heads = 2 * full.num_kv_heads
    f.divides("num_key_value_heads", kv_heads, "num_attention_heads", full.num_heads)
    sliding = replace(full, kind=AttentionKind.SLIDING, window=window, num_kv_heads=kv_heads)
    full_mixer = read_mixer(f, style, trunk.hidden_size, full)
    slide_mixer = replace(read_mixer(f, style, trunk.hidden_size, sliding), vector_params=full.num_heads)
    mixers = [full_mixer if name == "full_attention" else slide_mixer for name in types]
    layers = stack(mixers, deepseek_feeds(1)(f, style, count), 2 * trunk.norm_params)
    return decoder_spec(f, style, trunk, layers)


def step3p5(f: Fields) -> ModelSpec:
    """Step-3.5 and 3.7: a gate per head on the attention output; sliding layers may have more heads."""
    style = Style(qk_norm_default=True)
    trunk = read_trunk(f, style)
    hidden, count = trunk.hidden_size, trunk.num_layers
    shape = read_heads(f, hidden)
    types = f.texts("layer_types", count, ("full_attention", "sliding_attention"), padded=True)
    slide_heads = f.size("num_sliding_attention_heads", span=HEADS, default=shape.num_heads)

    def mixer(kind: str) -> Mixer:
        seen = shape
        if kind == "sliding_attention":
            seen = replace(
                shape,
                kind=AttentionKind.SLIDING,
                window=f.size("sliding_window", span=POSITIONS),
                num_heads=slide_heads,
            )
        plain = read_mixer(f, style, hidden, seen)
        gate = matrix("g_proj", hidden, seen.num_heads, Part.ATTENTION, Split.COLUMN)
        return replace(plain, linears=(*plain.linears, gate))

    kinds = types or ("full_attention",) * count
    made = {kind: mixer(kind) for kind in dict.fromkeys(kinds)}
    feeds = mix_feeds(
        sparse_layers(f, count, dense_prefix=3),
        lambda: read_dense_feed(f, style, hidden),
        lambda: _step_experts(f),
    )
    layers = stack([made[kind] for kind in kinds], feeds, 2 * trunk.norm_params)
    return decoder_spec(f, style, trunk, layers)


def _step_experts(f: Fields) -> Feed:
    experts, top = read_routing(
        f, ("n_routed_experts", "moe_num_experts", "num_experts"), ("num_experts_per_tok", "moe_top_k")
    )
    return moe_feed(
        f.size("hidden_size"),
        experts=experts,
        experts_per_token=top,
        width=f.size("moe_intermediate_size"),
        shared_width=f.size("share_expert_dim", span=(0, WIDTH[1])),
    )


def minimax_m3_text(f: Fields) -> ModelSpec:
    """MiniMax-M3: shared expert with gate and up in one matrix; sparse layers have an indexer."""
    style = Style(qk_norm_default=True)
    trunk = read_trunk(f, style)
    hidden, count = trunk.hidden_size, trunk.num_layers
    kinds = _minimax_m3_kinds(f, count)
    plain = read_mixer(f, style, hidden, read_heads(f, hidden))
    made = {"full_attention": plain}
    if _M3_SPARSE in kinds:
        made[_M3_SPARSE] = _with_indexer(f, plain, hidden)
    feeds = mix_feeds(
        sparse_layers(f, count, dense_prefix=0),
        lambda: read_dense_feed(f, style, hidden, f.size("dense_intermediate_size")),
        lambda: _minimax_m3_experts(f, hidden),
    )
    layers = stack([made[kind] for kind in kinds], feeds, 2 * trunk.norm_params)
    return decoder_spec(f, style, trunk, layers)


def _minimax_m3_kinds(f: Fields, count: int) -> Sequence[str]:
    kinds = f.texts("layer_types", count, ("full_attention", _M3_SPARSE))
    if kinds is not None:
        return kinds
    marks = None
    if f.has("sparse_attention_config"):
        marks = f.nested("sparse_attention_config").sizes("sparse_attention_freq", count, span=(0, 1))
    return [_M3_SPARSE if mark else "full_attention" for mark in marks or (0,) * count]


def _minimax_m3_experts(f: Fields, hidden: int) -> Feed:
    experts, top = read_routing(f, ("num_local_experts",), ("num_experts_per_tok",))
    return moe_feed(
        hidden,
        experts=experts,
        experts_per_token=top,
        width=f.size("intermediate_size"),
        shared_width=f.size("shared_intermediate_size", span=(0, WIDTH[1])),
        shared_names=_GATE_UP,
    )


def _with_indexer(f: Fields, mixer: Mixer, hidden: int) -> Mixer:
    source = f.nested("sparse_attention_config") if f.has("sparse_attention_config") else f
    heads = source.size("sparse_num_index_heads", "index_n_heads", span=HEADS)
    dim = source.size("sparse_index_dim", "index_head_dim")
    return replace(
        mixer,
        shape=replace(mixer.shape, index_head_dim=dim),
        linears=(
            *mixer.linears,
            matrix("indexer.q_proj", hidden, heads * dim, Part.ATTENTION),
            matrix("indexer.k_proj", hidden, dim, Part.ATTENTION),
        ),
        norm_params=mixer.norm_params + 2 * dim,
    )


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "minimax_m3": minimax_m3_text,
    "minimax_m3_vl_text": minimax_m3_text,
    "ernie4_5_moe": ernie4_5_moe,
    "dbrx": dbrx,
    "llama4_text": llama4_text,
    "mimo_v2_flash": mimo_v2_flash,
    "step3p5": step3p5,
}
