"""Working memory of a forward pass without gradients: the widest moment of a layer."""

from dataclasses import dataclass
from typing import Final

from planner.model.distinct import distinct
from planner.model.spec import Attention, AttentionKind, Layer, MlpKind, ModelSpec
from planner.placement import Share
from planner.units import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardWidth:
    """Elements per token at the widest moment of the widest layer on one rank.

    Attributes:
        inner: Elements in the feed-forward (or attention) half.
        hidden: Width of the residual stream.
    """

    inner: int
    hidden: int


def forward_width(share: Share, model: ModelSpec) -> ForwardWidth:
    """The widest layer of a share."""
    widths = [layer_width(layer, model.hidden_size, share.tensor) for layer, _ in distinct(share.layers)]
    return ForwardWidth(inner=max(widths, default=0), hidden=model.hidden_size)


def layer_width(layer: Layer, hidden: int, tensor: int) -> int:
    """Elements per token that a layer's widest moment holds beside the residual stream.

    Gated MLP: both halves of the up projection and their product. Plain MLP: before and after the
    activation. Experts: the same for every expert a token visits, and each one's output. Attention: query,
    key, value and the output.
    """
    mlp, attention = layer.mlp, layer.attention
    inner = (3 if mlp.gated else 2) * mlp.intermediate_size
    if mlp.kind is MlpKind.MOE:
        shared = 3 * mlp.shared_intermediate_size
        routed = mlp.experts_per_token * (ceil_div(inner, tensor) + hidden)
        wide = max(routed, ceil_div(shared, tensor))
    elif mlp.kind is MlpKind.NONE:
        wide = 0
    else:
        wide = ceil_div(inner, tensor)
    heads = attention.num_heads * attention.v_head_dim
    mixer = attention.q_width + attention.k_width + attention.v_width + heads
    if attention.kind is AttentionKind.NONE:
        mixer = 0
    elif attention.kind is AttentionKind.LINEAR:
        mixer = chunked_width(attention)
    return max(wide, ceil_div(mixer, tensor))


CHUNK: Final = 64
"""Tokens of a chunk in the kernels of flash-linear-attention."""


def chunked_width(shape: Attention) -> int:
    """Elements per token that a chunked delta rule holds: its inputs and what one pass hands to the next.

    Query; key and its decayed product; value, corrected value, its update and the output; a state for every
    chunk; scores within a chunk in 32 bit and in 16.
    """
    heads = shape.num_heads
    projected = heads * (3 * shape.head_dim + 4 * shape.v_head_dim)
    return projected + ceil_div(shape.state_elements, CHUNK) + 3 * CHUNK * heads


def expert_workspace_width(share: Share, model: ModelSpec, each: int | None = None) -> int:
    """Elements per token of the buffers that fused experts keep between layers.

    One serves the first product and the last in turn, one the activation: k x (max(2 f, h) + f).

    Args:
        share: The layers.
        model: The model.
        each: Ranks that divide one expert, if other than tensor parallelism.
    """
    widths = [0]
    for layer, _ in distinct(share.layers):
        mlp = layer.mlp
        if mlp.kind is MlpKind.MOE:
            inner = ceil_div(mlp.intermediate_size, each or share.tensor)
            up = (2 if mlp.gated else 1) * inner
            widths.append(mlp.experts_per_token * (max(up, model.hidden_size) + inner))
    return max(widths)
