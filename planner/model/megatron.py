"""Megatron-LM models, described by config keys alone: `megatron_gpt`, `_moe`, `_bert` and `_t5`.

The keys: `norm`, `gated_mlp`, `add_bias_linear`, `position_embedding`, `qk_layernorm`, the padded
`vocab_size`, and the usual Hugging Face sizes. Source: Megatron-Core (`core/models/gpt|bert|T5`,
`core/transformer`).
"""

from collections.abc import Callable
from dataclasses import replace

from planner.model.decoder import grouped, latent, stack
from planner.model.fields import EXPERTS, HEADS, LAYERS, POSITIONS, VOCAB, WIDTH, Fields
from planner.model.moe import mix_feeds, read_routing, sparse_layers
from planner.model.parts import (
    AttentionNames,
    Feed,
    Mixer,
    MlpNames,
    attention_matrices,
    dense_feed,
    head,
    join,
    matrix,
    moe_feed,
)
from planner.model.spec import (
    Block,
    Layer,
    Linear,
    ModelSpec,
    Part,
    Split,
    Structure,
)

_EXPERT_KEYS = ("num_experts", "num_moe_experts", "num_local_experts", "n_routed_experts")
_TOP_KEYS = ("num_experts_per_tok", "moe_router_topk")
_POSITIONS = ("learned", "rope", "none", "relative")


def _mlp_names(*, gated: bool) -> MlpNames:
    return (
        MlpNames(fused="linear_fc1", down="linear_fc2")
        if gated
        else MlpNames(up="linear_fc1", down="linear_fc2")
    )


def _norm_width(f: Fields) -> int:
    """Parameters of a norm per width."""
    return 2 if f.text("norm", allowed=("layer_norm", "rms_norm")) == "layer_norm" else 1


def _attention(f: Fields, hidden: int, *, prefix: str = "", cross: bool = False) -> Mixer:
    heads = f.size("num_attention_heads", span=HEADS)
    groups = f.size("num_key_value_heads", "num_query_groups", span=HEADS, default=heads)
    f.divides("num_key_value_heads", groups, "num_attention_heads", heads)
    head_dim = f.optional_size("head_dim", "kv_channels")
    if head_dim is None:
        head_dim = f.divides("num_attention_heads", heads, "hidden_size", hidden)
    bias = f.flag("add_bias_linear")
    qkv_bias = bias or f.flag("add_qkv_bias", default=False)
    shape = grouped(heads, groups, head_dim)
    names = AttentionNames(fused=f"{prefix}linear_qkv", output=f"{prefix}linear_proj")
    linears = attention_matrices(hidden, shape, names, qkv_bias=qkv_bias, output_bias=bias)
    if cross:
        query = matrix(
            f"{prefix}linear_q", hidden, shape.q_width, Part.ATTENTION, Split.COLUMN, bias=qkv_bias
        )
        kv_width = shape.k_width + shape.v_width
        pair = matrix(f"{prefix}linear_kv", hidden, kv_width, Part.ATTENTION, Split.COLUMN, bias=qkv_bias)
        linears = (query, pair, linears[-1])
    qk_norm = 2 * head_dim * _norm_width(f) if f.flag("qk_layernorm", default=False) else 0
    return Mixer(shape=shape, linears=linears, norm_params=qk_norm)


def _latent_attention(f: Fields, hidden: int) -> Mixer:
    """Multi-head latent attention; its inner norms exist only with `qk_layernorm`."""
    heads = f.size("num_attention_heads", span=HEADS)
    q_rank = f.optional_size("q_lora_rank") or 0
    kv_rank, rope = f.size("kv_lora_rank"), f.size("qk_rope_head_dim")
    nope, value = f.size("qk_nope_head_dim"), f.size("v_head_dim")
    shape = latent(heads, nope=nope, rope=rope, value=value, q_lora_rank=q_rank, kv_lora_rank=kv_rank)
    query: tuple[Linear, ...] = (
        matrix("linear_q_down_proj", hidden, q_rank, Part.ATTENTION),
        matrix("linear_q_up_proj", q_rank, shape.q_width, Part.ATTENTION, Split.COLUMN),
    )
    if not q_rank:
        query = (matrix("linear_q_proj", hidden, shape.q_width, Part.ATTENTION, Split.COLUMN),)
    bias = f.flag("add_bias_linear")
    linears = (
        *query,
        matrix("linear_kv_down_proj", hidden, kv_rank + rope, Part.ATTENTION),
        matrix("linear_kv_up_proj", kv_rank, heads * (nope + value), Part.ATTENTION, Split.COLUMN),
        matrix("linear_proj", heads * value, hidden, Part.ATTENTION, Split.ROW, bias=bias),
    )
    norms = (q_rank + kv_rank) * _norm_width(f) if f.flag("qk_layernorm", default=False) else 0
    return Mixer(shape=shape, linears=linears, norm_params=norms)


def _dense(f: Fields, hidden: int) -> Feed:
    gated = f.flag("gated_mlp")
    width = f.size("intermediate_size", "ffn_hidden_size")
    return dense_feed(hidden, width, _mlp_names(gated=gated), gated=gated, bias=f.flag("add_bias_linear"))


def _experts(f: Fields, hidden: int) -> Feed:
    experts, top = read_routing(f, _EXPERT_KEYS, _TOP_KEYS)
    gated = f.flag("gated_mlp")
    width = f.size("moe_intermediate_size", "moe_ffn_hidden_size", "intermediate_size")
    shared = f.size(
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        span=(0, WIDTH[1]),
        default=0,
    )
    count = f.size("n_shared_experts", span=(0, EXPERTS[1]), default=0)
    return moe_feed(
        hidden,
        experts=experts,
        experts_per_token=top,
        width=width,
        shared_width=shared or count * width,
        names=_mlp_names(gated=gated),
        shared_names=_mlp_names(gated=gated),
        gated=gated,
        bias=f.flag("add_bias_linear"),
        router_name="router",
    )


def _position_params(f: Fields, hidden: int, position: str) -> int:
    return hidden * f.size("max_position_embeddings", span=POSITIONS) if position == "learned" else 0


def _spec(
    f: Fields, hidden: int, layers: tuple[Layer, ...], *, structure: Structure = Structure.DECODER
) -> ModelSpec:
    vocab = f.size("vocab_size", span=VOCAB)
    position = f.text("position_embedding", allowed=_POSITIONS)
    return ModelSpec(
        model_type=f.model_type,
        structure=structure,
        hidden_size=hidden,
        vocab_size=vocab,
        max_position_embeddings=f.optional_size("max_position_embeddings", span=POSITIONS),
        layers=layers,
        embedding_params=hidden * vocab,
        position_params=_position_params(f, hidden, position),
        final_norm_params=hidden * _norm_width(f),
        head=head(hidden, vocab, name="output_layer"),
        tie_word_embeddings=f.flag("tie_word_embeddings"),
        norm=f.text("norm"),
        hidden_act=f.text("hidden_act", default="silu" if f.flag("gated_mlp") else "gelu"),
        position_embedding=position,
    )


def megatron_gpt(f: Fields) -> ModelSpec:
    """A Megatron GPT, dense or with experts, with grouped-query or latent attention."""
    hidden = f.size("hidden_size")
    count = f.size("num_hidden_layers", span=LAYERS)
    mixer = _latent_attention(f, hidden) if f.has("kv_lora_rank") else _attention(f, hidden)
    routed = f.has(*_EXPERT_KEYS) or f.model_type == "megatron_moe"
    sparse = sparse_layers(f, count, dense_prefix=0) if routed else (False,) * count
    feeds = mix_feeds(sparse, lambda: _dense(f, hidden), lambda: _experts(f, hidden))
    return _spec(f, hidden, stack((mixer,) * count, feeds, 2 * hidden * _norm_width(f)))


def megatron_bert(f: Fields) -> ModelSpec:
    """A Megatron BERT: token types, a language-model head of one layer, a pooler with a binary head."""
    hidden = f.size("hidden_size")
    count = f.size("num_hidden_layers", span=LAYERS)
    layer = join(_attention(f, hidden), _dense(f, hidden), 2 * hidden * _norm_width(f))
    spec = _spec(f, hidden, (layer,) * count, structure=Structure.ENCODER)
    blocks = [
        Block(name="lm_head", params=hidden * hidden + hidden + hidden * _norm_width(f), stage="last"),
    ]
    if f.flag("add_binary_head", default=True):
        params = hidden * hidden + hidden + 2 * hidden + 2
        blocks.append(Block(name="pooler", params=params, stage="last"))
    types = f.size("type_vocab_size", span=(0, 1_000), default=2)
    return replace(
        spec,
        position_params=spec.position_params + types * hidden,
        head=head(hidden, spec.vocab_size, bias=True, name="output_layer"),
        blocks=tuple(blocks),
    )


def megatron_t5(f: Fields) -> ModelSpec:
    """A Megatron T5: one embedding and one table of positions for both sides, a bias on the tied head."""
    hidden = f.size("hidden_size")
    encoders = f.size("num_hidden_layers", span=LAYERS)
    decoders = f.size("num_decoder_layers", span=LAYERS, default=encoders)
    norm = hidden * _norm_width(f)
    mixer, feed = _attention(f, hidden), _dense(f, hidden)
    cross = _attention(f, hidden, prefix="cross_attention.", cross=True)
    decoder = join(mixer, feed, 3 * norm, cross=cross)
    spec = _spec(f, hidden, (decoder,) * decoders, structure=Structure.ENCODER_DECODER)
    return replace(
        spec,
        encoder_layers=(join(mixer, feed, 2 * norm),) * encoders,
        final_norm_params=2 * norm,
        head=head(hidden, spec.vocab_size, bias=spec.tie_word_embeddings, name="output_layer"),
    )


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "megatron_gpt": megatron_gpt,
    "megatron_moe": megatron_gpt,
    "megatron_bert": megatron_bert,
    "megatron_t5": megatron_t5,
}
