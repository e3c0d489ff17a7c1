"""What one token, and one sequence, adds to the caches of a layer."""

from dataclasses import dataclass
from typing import Final

from planner.model.distinct import distinct
from planner.model.spec import Attention, AttentionKind, Layer, ModelSpec, Structure
from planner.units import ceil_div

KV_BYTES: Final[dict[str, tuple[int, int]]] = {
    "fp32": (1, 4), "bf16": (1, 2), "fp16": (1, 2), "fp8": (1, 1), "q8_0": (32, 34), "q6_0": (32, 26),
    "q5_0": (32, 22), "q5_1": (32, 24), "q4_0": (32, 18), "q4_1": (32, 20), "iq4_nl": (32, 18),
}  # fmt: skip
"""Cache formats as (elements of a block, bytes of a block); ggml's types carry their scales inside."""

WINDOWED: Final = frozenset({AttentionKind.SLIDING, AttentionKind.CHUNKED})
GROWING: Final = frozenset({AttentionKind.FULL, AttentionKind.MLA, *WINDOWED})
STATEFUL: Final = frozenset({AttentionKind.LINEAR, AttentionKind.STATE_SPACE, AttentionKind.CONVOLUTION})


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShape:
    """The cache of one layer on one device, in elements.

    Attributes:
        kind: The layer's attention kind.
        key: Key elements per token (for MLA the latent and the rope part together).
        value: Value elements per token, 0 where the latent serves for both.
        index: Key elements per token of a sparse-attention indexer.
        state: Elements of a recurrent state per sequence.
        conv: Elements of a convolution state per sequence.
        window: Tokens a windowed layer sees, None for all.
        ring: Only the window is kept, beside compressed entries of what lies before it.
    """

    kind: AttentionKind
    key: int = 0
    value: int = 0
    index: int = 0
    state: int = 0
    conv: int = 0
    window: int | None = None
    ring: bool = False

    def token_bytes(self, key_format: str, value_format: str, index_format: str = "bf16") -> float:
        """Bytes of one token in this layer; 0 where the cache does not grow."""
        return (
            self.key * element_bytes(key_format)
            + self.value * element_bytes(value_format)
            + self.index * element_bytes(index_format)
        )


def element_bytes(name: str) -> float:
    """Bytes of one cached element, block scales spread over the block."""
    elements, size = KV_BYTES[name]
    return size / elements


def kv_heads_on_rank(num_kv_heads: int, tensor: int) -> int:
    """KV heads a tensor-parallel rank holds: never less than one, since a head cannot be divided."""
    return max(1, ceil_div(num_kv_heads, tensor))


def cache_shape(layer: Layer, tensor: int) -> CacheShape:
    """The cache of a layer on one tensor-parallel rank: MLA's latent whole, states divided."""
    shape = layer.attention
    if shape.kind in STATEFUL:
        return _state_shape(shape, shape.kind, tensor)
    if shape.kind not in GROWING or shape.shares_kv:
        return CacheShape(kind=AttentionKind.NONE)
    if shape.kind is AttentionKind.MLA:
        latent = shape.kv_lora_rank + shape.qk_rope_head_dim
        return CacheShape(kind=shape.kind, key=latent, index=shape.index_head_dim)
    return _head_shape(shape, tensor)


def keeps_states(shape: Attention) -> bool:
    """Whether a layer is recurrent, or has recurrent heads beside its attention (Falcon-H1)."""
    return shape.kind in STATEFUL or shape.state_elements > 0


def _state_shape(shape: Attention, kind: AttentionKind, tensor: int) -> CacheShape:
    return CacheShape(
        kind=kind,
        state=ceil_div(shape.state_elements, tensor),
        conv=ceil_div(shape.conv_state_elements, tensor),
    )


def cache_shapes(layer: Layer, tensor: int) -> tuple[CacheShape, ...]:
    """The caches of a layer. DeepSeek-V4 has two: the window, and one entry for so many tokens before it.

    Key and value are one tensor there, and its one head is whole on every rank. Attention with recurrent heads
    beside it has two as well.
    """
    shape = layer.attention
    if shape.kind in GROWING and shape.state_elements:
        return cache_shape(layer, tensor), _state_shape(shape, AttentionKind.STATE_SPACE, tensor)
    if not shape.kv_tied:
        return (cache_shape(layer, tensor),)
    window = CacheShape(kind=shape.kind, key=shape.head_dim, window=shape.window, ring=True)
    ratio = shape.compress_ratio
    if not ratio:
        return (window,)
    entries = CacheShape(
        kind=AttentionKind.FULL,
        key=ceil_div(shape.head_dim, ratio),
        index=ceil_div(shape.index_head_dim, ratio),
    )
    return window, entries


def _head_shape(shape: Attention, tensor: int) -> CacheShape:
    heads = kv_heads_on_rank(shape.num_kv_heads, tensor)
    return CacheShape(
        kind=shape.kind,
        key=heads * shape.head_dim,
        value=heads * shape.v_head_dim,
        index=shape.index_head_dim,
        window=shape.window if shape.kind in WINDOWED else None,
    )


def expanded_mla_shape(layer: Layer, tensor: int) -> CacheShape:
    """The cache of an MLA layer in an engine that stores decompressed heads."""
    shape = layer.attention
    heads = ceil_div(shape.num_heads, tensor)
    return CacheShape(kind=AttentionKind.FULL, key=heads * shape.head_dim, value=heads * shape.v_head_dim)


def model_shapes(
    model: ModelSpec, layers: tuple[Layer, ...], tensor: int, *, expand_mla: bool = False
) -> dict[CacheShape, int]:
    """`shapes_by_count` of some layers of a model; an encoder keeps nothing from one token to the next."""
    if model.structure is Structure.ENCODER:
        return {}
    return shapes_by_count(layers, tensor, expand_mla=expand_mla)


def shapes_by_count(
    layers: tuple[Layer, ...], tensor: int, *, expand_mla: bool = False
) -> dict[CacheShape, int]:
    """Distinct cache shapes of some layers with how many layers have them, empty caches left out."""
    counts: dict[CacheShape, int] = {}
    for layer, times in distinct(layers):
        mla = layer.attention.kind is AttentionKind.MLA
        expanded = mla and expand_mla
        shapes = (expanded_mla_shape(layer, tensor),) if expanded else cache_shapes(layer, tensor)
        for shape in shapes:
            counts[shape] = counts.get(shape, 0) + times
    return {shape: count for shape, count in counts.items() if shape.kind is not AttentionKind.NONE}
