"""Models with hyper-connections, several residual streams per layer: DeepSeek-V4 and GLM-5.3.

Source: the modeling files of transformers 5.24.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from planner.model.decoder import decoder_spec, read_trunk, stack
from planner.model.fields import HEADS, LAYERS, POSITIONS, Fields
from planner.model.linear_attention import read_delta_attention
from planner.model.mla_moe import STYLE, next_token_blocks, read_indexers, read_latent_mixer, with_indexer
from planner.model.moe import deepseek_feeds, read_shared_experts
from planner.model.parts import Mixer, matrix
from planner.model.spec import Attention, AttentionKind, Linear, ModelSpec, Part, Split

_RATIOS = {
    "sliding_attention": 0,
    "compressed_sparse_attention": 4,
    "heavily_compressed_attention": 128,
}


V4_NAMES: Final = ("q_a_proj", "q_b_proj", "kv_proj", "o_a_proj", "o_b_proj")


def connection_params(hidden_size: int, streams: int) -> int:
    """The two hyper-connections of a layer: each a mixing matrix over all streams, a base, three scales."""
    mixes = streams * streams + 2 * streams
    return 2 * (mixes * streams * hidden_size + mixes + 3)


def deepseek_v4(f: Fields) -> ModelSpec:
    """DeepSeek-V4: one shared key-value head in a window, and beyond it one entry per 4 or 128 tokens."""
    trunk = read_trunk(f, STYLE)
    hidden, count = trunk.hidden_size, trunk.num_layers
    streams = f.size("hc_mult", span=(1, 64))
    kinds = _v4_kinds(f, count)
    made = {kind: _v4_mixer(f, hidden, kind) for kind in dict.fromkeys(kinds)}
    extra = connection_params(hidden, streams)
    mixers_by_kind = {
        kind: replace(mixer, vector_params=mixer.vector_params + extra) for kind, mixer in made.items()
    }
    experts = read_shared_experts(f, hidden)
    layers = stack([mixers_by_kind[kind] for kind in kinds], (experts,) * count, 2 * trunk.norm_params)
    spec = decoder_spec(f, STYLE, trunk, layers)
    head_connection = streams * streams * hidden + streams + 1
    predicted = f.size("num_nextn_predict_layers", span=(0, LAYERS[1]), default=0)
    return replace(
        spec,
        final_norm_params=spec.final_norm_params + head_connection,
        blocks=next_token_blocks(layers[-1], hidden, predicted),
    )


def _v4_kinds(f: Fields, count: int) -> Sequence[str]:
    types = f.texts("layer_types", count, tuple(_RATIOS), padded=True)
    if types is not None:
        return types
    ratios = f.sizes("compress_ratios", count, span=(0, 128), padded=True)
    if ratios is None:
        f.missing("compress_ratios")
    by_ratio = {ratio: name for name, ratio in _RATIOS.items()}
    for ratio in ratios:
        if ratio not in by_ratio:
            f.refuse("compress_ratios", ratio, ", ".join(str(known) for known in by_ratio))
    return [by_ratio[ratio] for ratio in ratios]


def _v4_mixer(f: Fields, hidden: int, kind: str) -> Mixer:
    mixer, ratio = shared_key_mixer(f, hidden, V4_NAMES), _RATIOS[kind]
    dim, q_rank = mixer.shape.head_dim, mixer.shape.q_lora_rank
    linears, norms, vectors, index_dim = mixer.linears, mixer.norm_params, mixer.vector_params, 0
    if ratio:
        # The closer compression keeps two overlapping series (paper, section 2.3.1).
        series = 2 if ratio == _RATIOS["compressed_sparse_attention"] else 1
        linears += _compressor("compressor", hidden, series * dim)
        norms += dim
        vectors += ratio * series * dim
    if kind == "compressed_sparse_attention":
        index_heads, index_dim = f.size("index_n_heads", span=HEADS), f.size("index_head_dim")
        linears += (
            *_compressor("compressor.indexer", hidden, 2 * index_dim),
            matrix("compressor.indexer.q_b_proj", q_rank, index_heads * index_dim, Part.ATTENTION),
            matrix(
                "compressor.indexer.scorer.weights_proj",
                hidden,
                index_heads,
                Part.ATTENTION,
                quantizable=False,
            ),
        )
        norms += index_dim
        vectors += ratio * 2 * index_dim
    shape = replace(mixer.shape, index_head_dim=index_dim, compress_ratio=ratio)
    return Mixer(shape=shape, linears=linears, norm_params=norms, vector_params=vectors)


def shared_key_mixer(f: Fields, hidden: int, names: tuple[str, str, str, str, str]) -> Mixer:
    """Attention in a window over one head whose key is its value too; queries and output pass a waist.

    Args:
        f: The config's fields.
        hidden: Residual width.
        names: The matrices: query down and up, key and value, output down (in groups of heads) and up.
    """
    heads, dim = f.size("num_attention_heads", span=HEADS), f.size("head_dim")
    q_rank, groups, o_rank = f.size("q_lora_rank"), f.size("o_groups", span=HEADS), f.size("o_lora_rank")
    group_width = f.divides("o_groups", groups, "num_attention_heads * head_dim", heads * dim)
    query_down, query_up, key_value, output_down, output_up = names
    linears = (
        matrix(query_down, hidden, q_rank, Part.ATTENTION),
        matrix(query_up, q_rank, heads * dim, Part.ATTENTION, Split.COLUMN),
        matrix(key_value, hidden, dim, Part.ATTENTION),
        matrix(output_down, group_width, groups * o_rank, Part.ATTENTION, Split.COLUMN),
        matrix(output_up, groups * o_rank, hidden, Part.ATTENTION, Split.ROW),
    )
    shape = Attention(
        kind=AttentionKind.SLIDING,
        num_heads=heads,
        num_kv_heads=1,
        head_dim=dim,
        v_head_dim=dim,
        window=f.size("sliding_window", span=POSITIONS),
        q_lora_rank=q_rank,
        kv_tied=True,
    )
    return Mixer(shape=shape, linears=linears, norm_params=q_rank + dim, vector_params=heads)


def _compressor(name: str, hidden: int, width: int) -> tuple[Linear, Linear]:
    return (
        matrix(f"{name}.kv_proj", hidden, width, Part.ATTENTION),
        matrix(f"{name}.gate_proj", hidden, width, Part.ATTENTION),
    )


def glm5_next_text(f: Fields) -> ModelSpec:
    """GLM-5.3: delta attention, every fourth layer latent attention with a pooled indexer."""
    trunk = read_trunk(f, STYLE)
    hidden, count = trunk.hidden_size, trunk.num_layers
    kinds = f.texts("layer_types", count, ("linear_attention", "indexed_attention"))
    if kinds is None:
        kinds = tuple(
            "linear_attention" if (index + 1) % 4 else "indexed_attention" for index in range(count)
        )
    if not all(read_indexers(f, count)):
        f.unsupported("indexer_types", f.config.get("indexer_types"))
    extra = connection_params(hidden, f.size("hc_mult", span=(1, 64)))
    made: dict[str, Mixer] = {}
    for kind in dict.fromkeys(kinds):
        mixer = read_delta_attention(f, hidden) if kind == "linear_attention" else _pooled_indexer(f, hidden)
        made[kind] = replace(mixer, vector_params=mixer.vector_params + extra)
    feeds = deepseek_feeds(3)(f, STYLE, count)
    layers = stack([made[kind] for kind in kinds], feeds, 2 * trunk.norm_params)
    return decoder_spec(f, STYLE, trunk, layers)


def _pooled_indexer(f: Fields, hidden: int) -> Mixer:
    mixer = with_indexer(f, read_latent_mixer(f, hidden), hidden)
    dim, pool = mixer.shape.index_head_dim, f.size("index_kpool", default=16)
    return replace(mixer, vector_params=mixer.vector_params + pool * dim + dim * hidden)


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "deepseek_v4": deepseek_v4,
    "glm5_next_text": glm5_next_text,
}
