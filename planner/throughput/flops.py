"""Operations of a layer by kind: matrix products, attention scores and values, recurrent states.

One multiplication and one addition are two operations. Shapes are of the whole layer; callers divide by the
degrees of parallelism.
"""

from dataclasses import dataclass
from typing import Final

from planner.model.spec import Attention, AttentionKind, Layer, ModelSpec, Part, Structure
from planner.units import Number

RECURRENT: Final = frozenset({AttentionKind.LINEAR, AttentionKind.STATE_SPACE})


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLoad:
    """What one token asks of one layer.

    Attributes:
        weights: Elements of the dense matrices it is multiplied with.
        expert_weights: Elements of the routed experts it visits.
        widths: Inputs and outputs of the dense matrices together, elements.
        expert_widths: The same of the visited experts.
        stream: Elements that norms, residuals, rotary embedding and activation functions read or write.
        score_width: Query and value widths together; times the keys seen, half the operations of attention.
        state_flops: Operations on recurrent states.
        held_experts: Elements of all routed experts of the layer; of a denoiser's block, of the matrices that the
            picture's tokens do not pass.
        routed_width: Elements sent to experts, all visits together; 0 where dense.
    """

    weights: float
    expert_weights: float
    widths: float
    expert_widths: float
    stream: float
    score_width: float
    state_flops: float
    held_experts: float
    routed_width: float


def matrix_flops(tokens: Number, weights: Number) -> Number:
    """Operations of tokens times a matrix: 2 x tokens x elements. Kaplan et al. 2020 (arXiv 2001.08361), 2.1."""
    return 2 * tokens * weights


def attention_flops(tokens: Number, seen: Number, score_width: Number) -> Number:
    """Scores and weighted values: 2 x tokens x keys seen x (query width + value width).

    FlashAttention-2 (arXiv 2307.08691), section 4.1: 4 x s^2 x d x heads, halved under a causal mask, which
    `seen_keys` does.
    """
    return 2 * tokens * seen * score_width


def seen_keys(length: float, window: int | None, *, causal: bool) -> float:
    """Keys that a query sees, mean over a sequence of `length` tokens; a window cuts the causal triangle."""
    if not causal:
        return length
    if window is None or window >= length:
        return (length + 1) / 2
    return window - window * (window - 1) / (2 * length)


def layer_load(layer: Layer, hidden: int) -> LayerLoad:
    """Counts a layer once."""
    mlp, dense, widths, experts, expert_widths = layer.mlp, 0, 0, 0.0, 0.0
    held = 0
    visited = mlp.experts_per_token / mlp.num_experts if mlp.num_experts else 0.0
    for linear in layer.linears:
        width = linear.in_features + linear.out_features
        if linear.part is Part.EXPERTS:
            held += linear.weight_params
            experts += linear.weight_params * visited
            expert_widths += width * linear.copies * visited
        elif layer.program and linear.part is Part.OTHER and not linear.convolution:
            held += linear.weight_params
        else:
            dense += linear.weight_params
            widths += width * linear.copies
    shape = layer.attention
    return LayerLoad(
        weights=dense,
        expert_weights=experts,
        widths=widths,
        expert_widths=expert_widths,
        stream=_stream(layer, hidden),
        score_width=_score_width(shape)
        + (_score_width(layer.cross_attention) if layer.cross_attention else 0),
        state_flops=4.0 * shape.state_elements if shape.kind in RECURRENT else 0.0,
        held_experts=held,
        routed_width=hidden * mlp.experts_per_token if mlp.num_experts else 0,
    )


def _score_width(shape: Attention) -> int:
    if shape.kind in RECURRENT or shape.kind in (AttentionKind.CONVOLUTION, AttentionKind.NONE):
        return 0
    value = shape.v_head_dim or shape.head_dim
    return shape.num_heads * (shape.head_dim + value)


def _stream(layer: Layer, hidden: int) -> float:
    """Two norms (read, write) and two residual sums (two read, one written); rotary; the activation function."""
    mlp = layer.mlp
    inner = mlp.intermediate_size * (mlp.experts_per_token or 1) + mlp.shared_intermediate_size
    activation = (3 if mlp.gated else 2) * inner
    rotary = 2 * (layer.attention.q_width + layer.attention.num_kv_heads * layer.attention.head_dim)
    routed = (
        4 * hidden * mlp.experts_per_token
    )  # sent to experts in their order and back: each read and written
    return 10 * hidden + rotary + activation + routed


def token_share(layer: Layer) -> float:
    """Share of a sequence's tokens that a layer sees: a quarter for each halving of a picture's sides (U-Nets)."""
    return 0.25**layer.halvings


def is_causal(model: ModelSpec) -> bool:
    """Whether a token sees only what lies before it; encoders see all."""
    return model.structure not in {Structure.ENCODER, Structure.DENOISER}


def layer_seen_keys(layer: Layer, length: float, *, causal: bool) -> float:
    """`seen_keys` with the layer's own window."""
    return seen_keys(length, layer.attention.window, causal=causal)
