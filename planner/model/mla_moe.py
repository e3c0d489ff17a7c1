"""Multi-head latent attention with experts: DeepSeek V2 to V3.2 and the families built on them.

Source: DeepSeek-V2 paper, section 2.1, and the modeling files of transformers 5.24.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.model.decoder import Trunk, decoder_spec, latent, read_dense_feed, read_trunk, stack
from planner.model.fields import EXPERTS, HEADS, LAYERS, Fields
from planner.model.moe import deepseek_feeds, read_routing
from planner.model.parts import Feed, Mixer, join, matrix, moe_feed
from planner.model.spec import Block, Layer, Linear, ModelSpec, Part, Split
from planner.model.style import Style

STYLE = Style()


def latent_mixer(
    hidden_size: int,
    *,
    heads: int,
    q_lora_rank: int,
    kv_lora_rank: int,
    nope: int,
    rope: int,
    value: int,
    bias: bool = False,
) -> Mixer:
    """Multi-head latent attention.

    Args:
        hidden_size: Residual width.
        heads: Query heads.
        q_lora_rank: Width of the compressed query, 0 for a plain query projection.
        kv_lora_rank: Width of the compressed key and value.
        nope: Width of a head's part without rotary positions.
        rope: Width of a head's rotary part; the key's is shared by all heads.
        value: Width of a value head.
        bias: Biases on the down projections and the output.
    """
    shape = latent(
        heads, nope=nope, rope=rope, value=value, q_lora_rank=q_lora_rank, kv_lora_rank=kv_lora_rank
    )
    query: tuple[Linear, ...]
    if q_lora_rank:
        query = (
            matrix("q_a_proj", hidden_size, q_lora_rank, Part.ATTENTION, bias=bias),
            matrix("q_b_proj", q_lora_rank, shape.q_width, Part.ATTENTION, Split.COLUMN),
        )
    else:
        query = (matrix("q_proj", hidden_size, shape.q_width, Part.ATTENTION, Split.COLUMN),)
    rest = (
        matrix("kv_a_proj_with_mqa", hidden_size, kv_lora_rank + rope, Part.ATTENTION, bias=bias),
        matrix("kv_b_proj", kv_lora_rank, heads * (nope + value), Part.ATTENTION, Split.COLUMN),
        matrix("o_proj", heads * value, hidden_size, Part.ATTENTION, Split.ROW, bias=bias),
    )
    return Mixer(shape=shape, linears=query + rest, norm_params=q_lora_rank + kv_lora_rank)


def read_latent_mixer(f: Fields, hidden_size: int) -> Mixer:
    """Multi-head latent attention from the keys that DeepSeek's configs use."""
    return latent_mixer(
        hidden_size,
        heads=f.size("num_attention_heads", span=HEADS),
        q_lora_rank=f.optional_size("q_lora_rank") or 0,
        kv_lora_rank=f.size("kv_lora_rank"),
        nope=f.size("qk_nope_head_dim"),
        rope=f.size("qk_rope_head_dim", span=(0, HEADS[1])),
        value=f.size("v_head_dim"),
        bias=f.flag("attention_bias", default=False),
    )


def with_indexer(f: Fields, mixer: Mixer, hidden_size: int) -> Mixer:
    """Attention with the indexer of DeepSeek sparse attention (DeepSeek-V3.2): one cached key per token."""
    heads, dim = f.size("index_n_heads", span=HEADS), f.size("index_head_dim")
    query_width = mixer.shape.q_lora_rank or hidden_size
    return replace(
        mixer,
        shape=replace(mixer.shape, index_head_dim=dim),
        linears=(
            *mixer.linears,
            matrix("indexer.wq_b", query_width, heads * dim, Part.ATTENTION),
            matrix("indexer.wk", hidden_size, dim, Part.ATTENTION),
            matrix("indexer.weights_proj", hidden_size, heads, Part.ATTENTION, quantizable=False),
        ),
        norm_params=mixer.norm_params + 2 * dim,
    )


def read_indexers(f: Fields, num_layers: int) -> Sequence[bool]:
    """Which layers run an indexer of their own; the others reuse the choice of the one before."""
    kinds = f.texts("indexer_types", num_layers, ("full", "shared"), padded=True)
    if kinds is not None:
        return [kind == "full" for kind in kinds]
    if f.has("index_topk_pattern"):
        f.unsupported("index_topk_pattern", f.config["index_topk_pattern"])
    step = f.size("index_topk_freq", span=LAYERS, default=1)
    offset = f.size("index_skip_topk_offset", span=(0, LAYERS[1]), default=2)
    return [max(index - offset + 1, 0) % step == 0 for index in range(num_layers)]


def next_token_blocks(layer: Layer, hidden_size: int, count: int) -> tuple[Block, ...]:
    """Multi-token-prediction layers (DeepSeek-V3 paper, section 2.2): a projection, norms, a layer.

    They are in the checkpoint; the Hugging Face class does not build them.
    """
    if not count:
        return ()
    one = layer.params + 2 * hidden_size * hidden_size + 3 * hidden_size
    return (Block(name="mtp", params=count * one, stage="last", counted=False),)


def _spec(f: Fields, trunk: Trunk, layers: tuple[Layer, ...]) -> ModelSpec:
    spec = decoder_spec(f, STYLE, trunk, layers)
    count = f.size("num_nextn_predict_layers", span=(0, LAYERS[1]), default=0)
    return replace(spec, blocks=next_token_blocks(layers[-1], trunk.hidden_size, count)) if count else spec


def _build(f: Fields, dense_prefix: int | None) -> ModelSpec:
    trunk = read_trunk(f, STYLE)
    mixer = read_latent_mixer(f, trunk.hidden_size)
    feeds = deepseek_feeds(dense_prefix)(f, STYLE, trunk.num_layers)
    return _spec(f, trunk, stack((mixer,) * trunk.num_layers, feeds, 2 * trunk.norm_params))


def deepseek(f: Fields) -> ModelSpec:
    """DeepSeek V2 and V3, Kimi K2."""
    return _build(f, None)


def glm4_moe_lite(f: Fields) -> ModelSpec:
    """GLM-4.7-Flash."""
    return _build(f, 1)


def mistral4(f: Fields) -> ModelSpec:
    """Mistral Small 4."""
    return _build(f, 0)


def sparse_attention(f: Fields) -> ModelSpec:
    """DeepSeek-V3.2 and GLM-5: latent attention with an indexer."""
    trunk = read_trunk(f, STYLE)
    plain = read_latent_mixer(f, trunk.hidden_size)
    indexed = with_indexer(f, plain, trunk.hidden_size)
    mixers = [indexed if own else plain for own in read_indexers(f, trunk.num_layers)]
    feeds = deepseek_feeds(3)(f, STYLE, trunk.num_layers)
    return _spec(f, trunk, stack(mixers, feeds, 2 * trunk.norm_params))


def mistral_large4_text(f: Fields) -> ModelSpec:
    """Mistral Large 4: every fourth layer without positions, scales on the softmax, more indexer norms."""
    trunk = read_trunk(f, STYLE)
    count = trunk.num_layers
    sources = f.sizes("kv_source_layers", count, span=(0, LAYERS[1]))
    if sources is not None and sources != tuple(range(count)):
        f.unsupported("kv_source_layers", list(sources))
    rotary = f.sizes("no_rope_layers", count, span=(0, 1))
    if rotary is None:
        step = f.size("no_rope_layer_interval", span=LAYERS, default=4)
        rotary = tuple(int((index + 1) % step != 0) for index in range(count))
    made = {
        mark: _mistral_large4_mixer(f, trunk.hidden_size, rotary=bool(mark)) for mark in dict.fromkeys(rotary)
    }
    feeds = deepseek_feeds(1)(f, STYLE, count)
    spec = decoder_spec(f, STYLE, trunk, stack([made[mark] for mark in rotary], feeds, 2 * trunk.norm_params))
    return replace(spec, position_params=f.size("qk_rope_head_dim") // 2)


def _mistral_large4_mixer(f: Fields, hidden_size: int, *, rotary: bool) -> Mixer:
    heads = f.size("num_attention_heads", span=HEADS)
    nope, rope = f.size("qk_nope_head_dim"), f.size("qk_rope_head_dim")
    mixer = latent_mixer(
        hidden_size,
        heads=heads,
        q_lora_rank=0,
        kv_lora_rank=f.size("kv_lora_rank"),
        nope=nope if rotary else nope + rope,
        rope=rope if rotary else 0,
        value=f.size("v_head_dim"),
        bias=f.flag("attention_bias", default=False),
    )
    indexed = with_indexer(f, mixer, hidden_size)
    scales = 2 * heads + 2 * f.size("index_n_heads", span=HEADS)
    return replace(indexed, norm_params=indexed.norm_params + 2 * hidden_size, vector_params=scales)


def longcat_flash(f: Fields) -> ModelSpec:
    """LongCat-Flash: a layer holds two attentions, two dense MLPs and, beside them, one set of experts.

    Described as two layers each, as they cache: the first with the experts (its dense MLP counted as
    shared experts), the second dense. The identity experts have no parameters; on average they take their
    share of a token's visits.
    """
    hidden = f.size("hidden_size")
    count = f.size("num_layers", span=(1, LAYERS[1] // 2))
    vocab = f.size("vocab_size", span=(1, 10**8))
    trunk = Trunk(
        hidden_size=hidden, num_layers=2 * count, vocab_size=vocab, norm=STYLE.norm, norm_params=hidden
    )
    mixer = read_latent_mixer(f, hidden)
    width = f.size("ffn_hidden_size")
    dense = read_dense_feed(f, STYLE, hidden, width)
    first = join(mixer, _longcat_experts(f, hidden, width), 2 * hidden)
    second = join(mixer, dense, 2 * hidden)
    return decoder_spec(f, STYLE, trunk, (first, second) * count)


def _longcat_experts(f: Fields, hidden: int, width: int) -> Feed:
    experts, top = read_routing(f, ("n_routed_experts",), ("moe_topk",))
    identity = f.size("zero_expert_num", span=(0, EXPERTS[1]), default=256)
    feed = moe_feed(
        hidden,
        experts=experts,
        experts_per_token=max(1, top * experts // (experts + identity)),
        width=f.size("expert_ffn_hidden_size"),
        shared_width=width,
        shared_prefix="mlps.0.",
    )
    router = matrix(
        "router.classifier",
        hidden,
        experts + identity,
        Part.ROUTER,
        bias=f.flag("router_bias", default=False),
        quantizable=False,
    )
    return replace(feed, linears=(router, *feed.linears[1:]))


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "deepseek_v2": deepseek,
    "deepseek_v3": deepseek,
    "kimi_k2": deepseek,
    "deepseek_v32": sparse_attention,
    "glm_moe_dsa": sparse_attention,
    "glm4_moe_lite": glm4_moe_lite,
    "mistral4": mistral4,
    "mistral_large4_text": mistral_large4_text,
    "longcat_flash": longcat_flash,
}
