"""Mochi's block: two streams of different widths, norms in fp32 on both sides of every part.

Source: diffusers 0.42.1 `models/transformers/transformer_mochi.py` and `MochiAttnProcessor2_0`. Widths as in
`planner.diffusion.blocks`; `p` is the text's stream, `ip` its feed-forward part and `gp` gate and up of that together.
"""

from typing import Final

from planner.diffusion.blocks import IMAGE, TEXT, Shape, matrices
from planner.diffusion.operations import WIDE
from planner.diffusion.tape import Tape

HALVES: Final = 3 * WIDE / 2 + 2
"""Mochi's positions: two products and their difference, each fp32 of half a head, beside the first half's result."""
HALVES_BACK: Final = 3 * WIDE / 2


def _mochi_norm(t: Tape, x: int, *, heads: str = "") -> int:
    """fp32 from the first to the last step: `MochiRMSNorm` of heads, and norms times a scale or a gate."""
    e = t.size(x)
    normed = t.normed_in_steps(x if heads else t.cast(x, WIDE), heads)
    return t.cast(t.scaled(normed, by_weight=bool(heads)), e)


def _mochi_qkv(t: Tape, x: int, names: tuple[str, str, str], stream: str) -> tuple[int, int, int]:
    q, k, v = matrices(t, x, names, stream)
    return _mochi_norm(t, q, heads=f"n{stream}"), _mochi_norm(t, k, heads=f"n{stream}"), v


def _mochi_closed(t: Tape, x: int, attended: int, name: str, widths: tuple[str, str, str]) -> int:
    """Residual, gated feed-forward part, residual: each of what is added is normed before."""
    stream, both, inner = widths
    x = t.add(x, _mochi_norm(t, attended))
    y = _mochi_norm(t, x)
    up = t.linear(y, f"{name}.net.0.proj", both, "w_up")
    first, gate = t.split(up, inner, inner)
    product = t.times(first, t.activation(gate))
    t.used(up, first, gate)
    fed = t.linear(product, f"{name}.net.2", stream, "w_down")
    out = t.add(x, _mochi_norm(t, fed))
    t.used(y, fed)
    return out


def mochi_block(t: Tape, s: Shape) -> tuple[int, ...]:
    """`MochiTransformerBlock`: two streams of different widths; each picture attends to its own text by itself."""
    image, text = t.given(f"h{IMAGE}"), t.given(f"p{TEXT}")
    a, b = _mochi_norm(t, image), _mochi_norm(t, text)
    qi, ki, vi = _mochi_qkv(t, a, ("attn1.to_q", "attn1.to_k", "attn1.to_v"), IMAGE)
    qt, kt, vt = _mochi_qkv(t, b, ("attn1.add_q_proj", "attn1.add_k_proj", "attn1.add_v_proj"), TEXT)
    qi, ki = (t.rotated_halves(x, HALVES, HALVES_BACK) for x in (qi, ki))
    q, k, v = (t.cat("h", x, t.copy(y)) for x, y in ((qi, qt), (ki, kt), (vi, vt)))
    padded = t.copy(t.attention(q, k, v, "n"))
    joint = t.copy(padded)
    t.used(padded)
    flat = t.copy(joint)
    image_out, text_out = t.split(flat, f"h{IMAGE}", f"h{TEXT}")
    image_out = t.linear(t.copy(image_out), "attn1.to_out.0", f"h{IMAGE}", "w_attention")
    if not s.drops_text:
        text_out = t.linear(t.copy(text_out), "attn1.to_add_out", f"p{TEXT}", "w_text")
    t.used(flat, q, k, v, qi, ki, vi, qt, kt, vt)
    image = _mochi_closed(t, image, image_out, "ff", (f"h{IMAGE}", f"gate_up{IMAGE}", f"i{IMAGE}"))
    if not s.drops_text:
        text = _mochi_closed(t, text, text_out, "ff_context", (f"p{TEXT}", f"gp{TEXT}", f"ip{TEXT}"))
    t.used(image_out, text_out, a, b)
    return (image,) if s.drops_text else (image, text)
