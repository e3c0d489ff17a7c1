"""Layers with a state of fixed size in place of a cache: delta nets, Mamba, lightning, convolutions.

State sizes are elements per sequence. The convolution state holds `kernel - 1` past inputs, as inference
engines keep it (transformers rounds up to `kernel`); the recurrent state is what `update_recurrent_state`
stores in the modeling files of transformers 5.24 (`Qwen3NextGatedDeltaNet`, `KimiDeltaAttention`,
`MambaMixer`, `Mamba2Mixer`, `MiniMaxLightningAttention`, `Lfm2ShortConv`).
"""

from planner.model.fields import HEADS, Fields
from planner.model.parts import Mixer, matrix
from planner.model.spec import Attention, AttentionKind, Linear, Part, Split

KERNEL = (1, 1_024)


def gated_delta_net(f: Fields, hidden: int, *, fused: bool) -> Mixer:
    """Gated delta net: state of value heads x key width x value width.

    Args:
        f: The config, with the `linear_*` keys.
        hidden: Residual width.
        fused: Query, key, value and gate in one matrix (Qwen3-Next) or apart (Qwen3.5).
    """
    k_heads = f.size("linear_num_key_heads", span=HEADS)
    v_heads = f.size("linear_num_value_heads", span=HEADS)
    k_dim, v_dim = f.size("linear_key_head_dim"), f.size("linear_value_head_dim")
    kernel = f.size("linear_conv_kernel_dim", span=KERNEL)
    f.divides("linear_num_key_heads", k_heads, "linear_num_value_heads", v_heads)
    keys, values = k_heads * k_dim, v_heads * v_dim
    conv = 2 * keys + values
    inputs: tuple[Linear, ...]
    if fused:
        inputs = (
            matrix("in_proj_qkvz", hidden, conv + values, Part.ATTENTION, Split.COLUMN),
            matrix("in_proj_ba", hidden, 2 * v_heads, Part.ATTENTION, Split.COLUMN),
        )
    else:
        inputs = (
            matrix("in_proj_qkv", hidden, conv, Part.ATTENTION, Split.COLUMN),
            matrix("in_proj_z", hidden, values, Part.ATTENTION, Split.COLUMN),
            matrix("in_proj_b", hidden, v_heads, Part.ATTENTION, Split.COLUMN),
            matrix("in_proj_a", hidden, v_heads, Part.ATTENTION, Split.COLUMN),
        )
    return Mixer(
        shape=Attention(
            kind=AttentionKind.LINEAR,
            num_heads=v_heads,
            num_kv_heads=k_heads,
            head_dim=k_dim,
            v_head_dim=v_dim,
            state_elements=v_heads * k_dim * v_dim,
            conv_state_elements=conv * (kernel - 1),
        ),
        linears=(*inputs, matrix("out_proj", values, hidden, Part.ATTENTION, Split.ROW)),
        norm_params=v_dim,
        vector_params=conv * kernel + 2 * v_heads,
    )


def read_delta_attention(f: Fields, hidden: int) -> Mixer:
    """Kimi delta attention: decay and output gates through a waist of one head's width."""
    source = f.nested("linear_attn_config") if f.has("linear_attn_config") else f
    heads = source.size("linear_num_heads", "num_heads", span=HEADS)
    dim = source.size("linear_head_dim", "head_dim")
    kernel = source.size("linear_conv_kernel_dim", "short_conv_kernel_size", span=KERNEL)
    width = heads * dim
    gate: tuple[Linear, ...] = (
        matrix("g_a_proj", hidden, dim, Part.ATTENTION),
        matrix("g_b_proj", dim, width, Part.ATTENTION, Split.COLUMN),
    )
    if source.flag("use_full_rank_gate", default=False):
        gate = (matrix("g_proj", hidden, width, Part.ATTENTION, Split.COLUMN),)
    return Mixer(
        shape=_square_states(heads, dim, convolved=3 * width * (kernel - 1)),
        linears=(
            matrix("q_proj", hidden, width, Part.ATTENTION, Split.COLUMN),
            matrix("k_proj", hidden, width, Part.ATTENTION, Split.COLUMN),
            matrix("v_proj", hidden, width, Part.ATTENTION, Split.COLUMN),
            matrix("f_a_proj", hidden, dim, Part.ATTENTION),
            matrix("f_b_proj", dim, width, Part.ATTENTION, Split.COLUMN),
            matrix("b_proj", hidden, heads, Part.ATTENTION, Split.COLUMN),
            *gate,
            matrix("o_proj", width, hidden, Part.ATTENTION, Split.ROW),
        ),
        norm_params=dim,
        vector_params=3 * width * kernel + width + heads,
    )


def _square_states(heads: int, dim: int, convolved: int = 0) -> Attention:
    """A state of width x width for each head, and what a convolution before it remembers."""
    return Attention(
        kind=AttentionKind.LINEAR,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=dim,
        v_head_dim=dim,
        state_elements=heads * dim * dim,
        conv_state_elements=convolved,
    )


def lightning_mixer(hidden: int, heads: int, dim: int) -> Mixer:
    """MiniMax's lightning attention: no convolution, state of heads x width x width."""
    width = heads * dim
    return Mixer(
        shape=_square_states(heads, dim),
        linears=(
            matrix("qkv_proj", hidden, 3 * width, Part.ATTENTION, Split.COLUMN),
            matrix("out_proj", width, hidden, Part.ATTENTION, Split.ROW),
            matrix("output_gate", hidden, width, Part.ATTENTION, Split.COLUMN),
        ),
        norm_params=width,
    )


def mamba_mixer(
    hidden: int,
    *,
    width: int,
    state: int,
    kernel: int,
    time_rank: int,
    conv_bias: bool,
    proj_bias: bool,
    inner_norms: bool = False,
) -> Mixer:
    """Mamba (arXiv:2312.00752): state of width x state size.

    Args:
        hidden: Residual width.
        width: Inner width.
        state: State size of a channel.
        kernel: Taps of the convolution.
        time_rank: Rank of the time step.
        conv_bias: Bias on the convolution.
        proj_bias: Biases on the input and output projections.
        inner_norms: Norms on the time step, B and C (Jamba).
    """
    return Mixer(
        shape=Attention(
            kind=AttentionKind.STATE_SPACE,
            num_heads=1,
            head_dim=width,
            v_head_dim=width,
            state_elements=width * state,
            conv_state_elements=width * (kernel - 1),
        ),
        linears=(
            matrix("in_proj", hidden, 2 * width, Part.ATTENTION, Split.COLUMN, bias=proj_bias),
            matrix("x_proj", width, time_rank + 2 * state, Part.ATTENTION, Split.ROW),
            matrix("dt_proj", time_rank, width, Part.ATTENTION, Split.COLUMN, bias=True),
            matrix("out_proj", width, hidden, Part.ATTENTION, Split.ROW, bias=proj_bias),
        ),
        norm_params=time_rank + 2 * state if inner_norms else 0,
        vector_params=width * kernel + (width if conv_bias else 0) + width * state + width,
    )


def mamba2_mixer(
    hidden: int,
    *,
    heads: int,
    head_dim: int,
    state: int,
    groups: int,
    kernel: int,
    conv_bias: bool,
    proj_bias: bool,
) -> Mixer:
    """Mamba-2 (arXiv:2405.21060): state of heads x head width x state size; B and C are convolved too.

    Args:
        hidden: Residual width.
        heads: Heads.
        head_dim: Width of a head.
        state: Elements of the state per channel.
        groups: Groups that share B and C.
        kernel: Width of the convolution.
        conv_bias: Whether the convolution has one.
        proj_bias: Whether both projections have one.
    """
    width = heads * head_dim
    conv = width + 2 * groups * state
    return Mixer(
        shape=Attention(
            kind=AttentionKind.STATE_SPACE,
            num_heads=heads,
            num_kv_heads=groups,
            head_dim=head_dim,
            v_head_dim=head_dim,
            state_elements=width * state,
            conv_state_elements=conv * (kernel - 1),
        ),
        linears=(
            matrix("in_proj", hidden, width + conv + heads, Part.ATTENTION, Split.COLUMN, bias=proj_bias),
            matrix("out_proj", width, hidden, Part.ATTENTION, Split.ROW, bias=proj_bias),
        ),
        norm_params=width,
        vector_params=conv * kernel + (conv if conv_bias else 0) + 3 * heads,
    )


def short_convolution(hidden: int, *, kernel: int, bias: bool) -> Mixer:
    """LFM2's gated short convolution."""
    return Mixer(
        shape=Attention(
            kind=AttentionKind.CONVOLUTION,
            head_dim=hidden,
            v_head_dim=hidden,
            conv_state_elements=hidden * (kernel - 1),
        ),
        linears=(
            matrix("in_proj", hidden, 3 * hidden, Part.ATTENTION, Split.COLUMN, bias=bias),
            matrix("out_proj", hidden, hidden, Part.ATTENTION, Split.ROW, bias=bias),
        ),
        vector_params=hidden * kernel + (hidden if bias else 0),
    )
