"""DeepSeek-V4.1: compressed keys kept by a few layers for all that follow, and tables of n-grams looked up.

The class is in no released library; sizes follow the released config and the tensor names that ports of it state
(github.com/ztxz16/fastllm, pull request 727; github.com/vllm-project/vllm, pull request 56201). Projections around the
tables and drafting layers are described in words there, so counts carry `class_not_public`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from planner.model.decoder import decoder_spec, read_trunk, stack
from planner.model.fields import HEADS, LAYERS, Fields
from planner.model.hyper import connection_params, shared_key_mixer
from planner.model.mla_moe import STYLE
from planner.model.moe import read_shared_experts
from planner.model.parts import Feed, Mixer, matrix
from planner.model.spec import Block, ModelSpec, Part

NAMES: Final = ("wq_a", "wq_b", "wkv", "wo_a", "wo_b")
NGRAM_TABLES = "ngram_tables"


def deepseek_v41(f: Fields) -> ModelSpec:
    """Four residual streams, one shared key-value head in a window, 384 experts in every layer."""
    trunk = read_trunk(f, STYLE)
    hidden, count = trunk.hidden_size, trunk.num_layers
    streams = f.size("hc_mult", span=(1, 64))
    extra = connection_params(hidden, streams)
    roles = _roles(f, count)
    made = {role: _mixer(f, hidden, role) for role in dict.fromkeys(roles)}
    mixers = {role: replace(mixer, vector_params=mixer.vector_params + extra) for role, mixer in made.items()}
    experts = read_shared_experts(f, hidden)
    layers = stack([mixers[role] for role in roles], (experts,) * count, 2 * trunk.norm_params)
    spec = decoder_spec(f, STYLE, trunk, layers)
    head_connection = streams * streams * hidden + streams + 1
    return replace(
        spec,
        final_norm_params=spec.final_norm_params + head_connection,
        blocks=(*_tables(f, hidden, streams), *_draft(f, mixers[roles[0]], experts, hidden)),
        approximate=("class_not_public",),
    )


_Role = tuple[int, bool, bool]
"""Compression ratio, whether the layer keeps compressed keys, whether it picks among them."""


def _roles(f: Fields, count: int) -> Sequence[_Role]:
    ratios = f.sizes("compress_ratios", count, span=(0, 2), padded=True)
    if ratios is None:
        f.missing("compress_ratios")
    keeps = set(f.sizes("kv_source_layer_ids", None, span=(0, LAYERS[1])) or ())
    picks = set(f.sizes("index_source_layer_ids", None, span=(0, LAYERS[1])) or ())
    return [(ratio, layer in keeps, layer in picks) for layer, ratio in enumerate(ratios[:count])]


def _mixer(f: Fields, hidden: int, role: _Role) -> Mixer:
    ratio, keeps, picks = role
    mixer = shared_key_mixer(f, hidden, NAMES)
    dim, q_rank = mixer.shape.head_dim, mixer.shape.q_lora_rank
    index_heads, index_dim = f.size("index_n_heads", span=HEADS), f.size("index_head_dim")
    linears, norms = mixer.linears, mixer.norm_params
    if keeps:
        linears += (
            matrix("compressor.wkv", hidden, dim, Part.ATTENTION),
            matrix("compressor.wgate", hidden, dim, Part.ATTENTION),
            matrix("indexer.wk", dim, index_dim, Part.ATTENTION),
        )
        norms += dim + index_dim
    if picks:
        linears += (
            matrix("indexer.wq_b", q_rank, index_heads * index_dim, Part.ATTENTION),
            matrix("indexer.weights_proj", hidden, index_heads, Part.ATTENTION, quantizable=False),
        )
    shape = mixer.shape
    if keeps:
        shape = replace(shape, index_head_dim=index_dim, compress_ratio=ratio)
    return replace(mixer, shape=shape, linears=linears, norm_params=norms)


def _tables(f: Fields, hidden: int, streams: int) -> tuple[Block, ...]:
    """N-gram tables and what turns their rows into a residual: a value, and a key for each stream."""
    layers = f.sizes("engram_layer_ids", None, span=(0, LAYERS[1])) or ()
    if not layers:
        return ()
    rows = f.sizes("engram_num_embeddings", len(layers), span=(1, 10**10))
    if rows is None:
        f.missing("engram_num_embeddings")
    width = f.size("engram_head_dim")
    hashes = f.size("engram_n_heads", span=HEADS) * (f.size("engram_max_ngram_size", span=(2, 64)) - 1)
    around = len(layers) * (1 + streams) * hashes * width * hidden
    return (
        Block(name=NGRAM_TABLES, params=sum(rows) * width, table=True),
        Block(name="ngram_projections", params=around),
    )


def _draft(f: Fields, mixer: Mixer, experts: Feed, hidden: int) -> tuple[Block, ...]:
    """Drafting layers, with fewer experts than the model's own."""
    count = f.size("num_nextn_predict_layers", span=(0, LAYERS[1]), default=0)
    if not count:
        return ()
    held = f.size("dspark_n_routed_experts", span=(1, 65_536), default=experts.shape.num_experts)
    own = sum(linear.params for linear in mixer.linears)
    feed = sum(
        linear.params * (held if linear.part is Part.EXPERTS else linear.copies) // linear.copies
        for linear in experts.linears
    )
    one = own + feed + 2 * hidden * hidden + 3 * hidden
    return (Block(name="mtp", params=count * one, stage="last", counted=False),)


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {"deepseek_v41_text": deepseek_v41}
