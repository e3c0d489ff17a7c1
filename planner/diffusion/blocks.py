"""The blocks of the catalogue's denoisers, operation by operation, as diffusers 0.42.1's classes run them.

Widths are elements per token of the whole sequence: `h` = the stream, `i` = the feed-forward part, `n` = heads; an
ending `_image` or `_text` counts the tokens of one stream alone. Sources: diffusers `models/attention.py`,
`models/normalization.py` and `models/transformers/transformer_*.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from planner.diffusion.operations import WIDE
from planner.diffusion.tape import Tape

IMAGE: Final = "_image"
TEXT: Final = "_text"
PAIRS: Final = 3 * WIDE
"""`apply_rotary_emb` on real numbers: two fp32 products and an fp32 copy, beside the pairs put crosswise."""
COMPLEX: Final = 2 * WIDE
"""The same on complex numbers: an fp32 copy and its fp32 product."""
IMAGE_QKV: Final = ("attn.to_q", "attn.to_k", "attn.to_v")
TEXT_QKV: Final = ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What tells blocks of one class apart.

    Attributes:
        gated: The feed-forward part has a gate.
        head_norms: Queries and keys are normed.
        second_attention: A second attention on the image alone (Stable Diffusion 3.5 medium).
        drops_text: The last block, which makes nothing more of the text.
    """

    gated: bool = False
    head_norms: bool = True
    second_attention: bool = False
    drops_text: bool = False


Program = Callable[[Tape, Shape], tuple[int, ...]]


def _feed(t: Tape, x: int, name: str, stream: str) -> int:
    """GELU between two matrices (diffusers `FeedForward`); its list holds the input until the output is there."""
    up = t.linear(x, f"{name}.net.0.proj", f"i{stream}", "w_up")
    y = t.linear(t.activation(up), f"{name}.net.2", f"h{stream}", "w_down")
    t.used(x)
    return y


def _swiglu(t: Tape, x: int, stream: str) -> int:
    """Two slices of one product; the gradient of each is as large as that."""
    gate, up = t.view(x, f"i{stream}"), t.view(x, f"i{stream}")
    y = t.times(t.activation(gate), up)
    t.used(x)
    return y


def _closed(t: Tape, x: int, stream: str, name: str, *, gated: bool = False, names_norm: bool = False) -> int:
    """Norm, feed-forward part and residual of one stream."""
    normed = t.layer_norm(x)
    y = t.modulated(normed)
    if gated:
        up = t.linear(y, f"{name}.linear_in", f"gate_up{stream}", "w_up")
        fed = t.linear(_swiglu(t, up, stream), f"{name}.linear_out", f"h{stream}", "w_down")
    else:
        fed = _feed(t, y, name, stream)
    out = t.add(x, t.scaled(fed))
    t.used(y, *([normed] if names_norm else []))
    return out


def matrices(t: Tape, x: int, names: tuple[str, str, str], stream: str) -> tuple[int, int, int]:
    """Queries, keys and values of one stream."""
    q, k, v = (t.linear(x, name, f"h{stream}", "w_attention") for name in names)
    return q, k, v


def _pairs(t: Tape, x: int) -> int:
    """Rotary positions on real numbers, pair by pair."""
    return t.rotated(x, PAIRS, 2 * WIDE)


def _complex(t: Tape, x: int) -> int:
    return t.rotated(x, COMPLEX, COMPLEX)


def _joined(t: Tape, joint: int, a: int, b: int) -> tuple[int, int]:
    """Attention's output for image and text, each copied for its matrix."""
    image, text = t.split(joint, f"h{IMAGE}", f"h{TEXT}")
    text = t.linear(t.copy(text), "attn.to_add_out", f"h{TEXT}", "w_attention")
    image = t.linear(t.copy(image), "attn.to_out.0", f"h{IMAGE}", "w_attention")
    t.used(a, b)
    return image, text


def flux_double(t: Tape, s: Shape) -> tuple[int, ...]:
    """`FluxTransformerBlock`, `Flux2TransformerBlock`: two streams that meet in attention."""
    image, text = t.given(f"h{IMAGE}"), t.given(f"h{TEXT}")
    a, b = t.modulated(t.layer_norm(image)), t.modulated(t.layer_norm(text))
    qi, ki, vi = matrices(t, a, IMAGE_QKV, IMAGE)
    qt, kt, vt = matrices(t, b, TEXT_QKV, TEXT)
    qi, ki = t.rms_norm(qi, f"n{IMAGE}"), t.rms_norm(ki, f"n{IMAGE}")
    qt, kt = t.rms_norm(qt, f"n{TEXT}"), t.rms_norm(kt, f"n{TEXT}")
    q, k, v = t.cat("h", qt, qi), t.cat("h", kt, ki), t.cat("h", vt, vi)
    joint = t.attention(_pairs(t, q), _pairs(t, k), v, "n")
    t.used(qt, kt, vt)
    image_out, text_out = _joined(t, joint, a, b)
    first = t.scaled(image_out)
    image = _closed(t, t.add(image, first), IMAGE, "ff", gated=s.gated)
    text = _closed(t, t.add(text, t.scaled(text_out)), TEXT, "ff_context", gated=s.gated)
    t.used(first, a, b)
    return image, text


def flux_single(t: Tape, s: Shape) -> tuple[int, ...]:  # noqa: ARG001  # all programs have one form
    """`FluxSingleTransformerBlock`: attention and feed-forward part side by side on both streams put together."""
    x = t.cat("h", t.given(f"h{TEXT}"), t.given(f"h{IMAGE}"))
    y = t.modulated(t.layer_norm(x))
    feed = t.activation(t.linear(y, "proj_mlp", "i", "w_up"))
    q, k, v = matrices(t, y, IMAGE_QKV, "")
    q, k = t.rms_norm(q, "n"), t.rms_norm(k, "n")
    out = t.attention(_pairs(t, q), _pairs(t, k), v, "n")
    both = t.cat("both", out, feed)
    t.used(out, feed)
    out = t.scaled(t.linear(both, "proj_out", "h", "w_out"))
    t.used(y)
    return t.split(t.add(x, out), f"h{TEXT}", f"h{IMAGE}")


def flux2_single(t: Tape, s: Shape) -> tuple[int, ...]:  # noqa: ARG001
    """`Flux2SingleTransformerBlock`: one matrix for queries, keys, values, gate and up."""
    x = t.given("h")
    y = t.modulated(t.layer_norm(x))
    fused = t.linear(y, "attn.to_qkv_mlp_proj", "fused", "w_in")
    qkv, mlp = t.split(fused, "qkv", "gate_up")
    q, k, v = t.split(qkv, "h", "h", "h")
    q, k = t.rms_norm(q, "n"), t.rms_norm(k, "n")
    rq, rk = _pairs(t, q), _pairs(t, k)
    out = t.attention(rq, rk, v, "n")
    fed = _swiglu(t, mlp, "")
    both = t.cat("both", out, fed)
    t.used(out, fed, rq, rk, fused)
    out = t.scaled(t.linear(both, "attn.to_out", "h", "w_out"))
    t.used(y)
    return (t.add(x, out),)


def joint_block(t: Tape, s: Shape) -> tuple[int, ...]:
    """`JointTransformerBlock` (Stable Diffusion 3): no positions inside, image first."""
    image, text = t.given(f"h{IMAGE}"), t.given(f"h{TEXT}")
    normed = t.layer_norm(image)
    a = t.modulated(normed)
    second = t.modulated(normed) if s.second_attention else a
    b = t.modulated(t.layer_norm(text))
    qi, ki, vi = matrices(t, a, IMAGE_QKV, IMAGE)
    if s.head_norms:
        qi, ki = t.rms_norm_in_steps(qi, f"n{IMAGE}"), t.rms_norm_in_steps(ki, f"n{IMAGE}")
    qt, kt, vt = matrices(t, b, TEXT_QKV, TEXT)
    if s.head_norms:
        qt, kt = t.rms_norm_in_steps(qt, f"n{TEXT}"), t.rms_norm_in_steps(kt, f"n{TEXT}")
    q, k, v = t.cat("h", qi, qt), t.cat("h", ki, kt), t.cat("h", vi, vt)
    joint = t.attention(q, k, v, "n")
    t.used(qt, kt, vt)
    part, rest = t.split(joint, f"h{IMAGE}", f"h{TEXT}")
    if not s.drops_text:
        rest = t.linear(t.copy(rest), "attn.to_add_out", f"h{TEXT}", "w_attention")
    part = t.linear(t.copy(part), "attn.to_out.0", f"h{IMAGE}", "w_attention")
    t.used(q, k, v, b)
    gates = [t.scaled(part)]
    image = t.add(image, gates[0])
    if s.second_attention:
        own = _own_attention(t, second, "attn2.", IMAGE, steps=s.head_norms)
        gates.append(t.scaled(own))
        image = t.add(image, gates[1])
    image = _closed(t, image, IMAGE, "ff")
    t.used(a, second, rest, *gates)
    if s.drops_text:
        return (image,)
    return image, _closed(t, t.add(text, t.scaled(rest)), TEXT, "ff_context")


def _own_attention(t: Tape, x: int, prefix: str, stream: str, *, steps: bool) -> int:
    """Attention of one stream to itself, with diffusers' own norm on queries and keys."""
    q, k, v = matrices(t, x, (f"{prefix}to_q", f"{prefix}to_k", f"{prefix}to_v"), stream)
    if steps:
        q, k = t.rms_norm_in_steps(q, f"n{stream}"), t.rms_norm_in_steps(k, f"n{stream}")
    out = t.attention(q, k, v, f"n{stream}")
    y = t.linear(out, f"{prefix}to_out.0", f"h{stream}", "w_attention")
    t.used(x, q, k, v)
    return y


def qwen_double(t: Tape, s: Shape) -> tuple[int, ...]:  # noqa: ARG001
    """`QwenImageTransformerBlock`: two streams, positions on each before they meet."""
    image, text = t.given(f"h{IMAGE}"), t.given(f"h{TEXT}")
    ni, nt = t.layer_norm(image), t.layer_norm(text)
    a, b = t.modulated(ni), t.modulated(nt)
    qi, ki, vi = matrices(t, a, IMAGE_QKV, IMAGE)
    qt, kt, vt = matrices(t, b, TEXT_QKV, TEXT)
    qi, ki = t.rms_norm_in_steps(qi, f"n{IMAGE}"), t.rms_norm_in_steps(ki, f"n{IMAGE}")
    qt, kt = t.rms_norm_in_steps(qt, f"n{TEXT}"), t.rms_norm_in_steps(kt, f"n{TEXT}")
    qi, ki, qt, kt = (_complex(t, x) for x in (qi, ki, qt, kt))
    q, k, v = t.cat("h", qt, qi), t.cat("h", kt, ki), t.cat("h", vt, vi)
    joint = t.attention(q, k, v, "n")
    t.used(qi, ki, vi, qt, kt, vt)
    image_out, text_out = _joined(t, joint, a, b)
    t.used(q, k, v)
    image, text = t.add(image, t.scaled(image_out)), t.add(text, t.scaled(text_out))
    image = _closed(t, image, IMAGE, "img_mlp", names_norm=True)
    text = _closed(t, text, TEXT, "txt_mlp", names_norm=True)
    t.used(image_out, text_out, ni, nt, a, b)
    return image, text


def _wide_modulated(t: Tape, x: int) -> int:
    """Norm, scale and shift in fp32, then back (Wan)."""
    return t.cast(t.modulated(t.layer_norm(t.cast(x, WIDE))), t.e)


def _wide_gated(t: Tape, x: int, y: int, *, widened: bool) -> int:
    """A residual whose gate is fp32: the sum in fp32, then back (Wan)."""
    wide = t.cast(x, WIDE)
    out = t.cast(t.add(wide, t.widened(y, copies=widened)), t.e)
    t.used(y)
    return out


def wan_block(t: Tape, s: Shape) -> tuple[int, ...]:  # noqa: ARG001
    """`WanTransformerBlock`: attention to itself, to the text, feed-forward part; norms and gates in fp32."""
    x, text = t.given("h"), t.given(f"h{TEXT}", flows=t.trains.full)
    y = _wide_modulated(t, x)
    q, k, v = matrices(t, y, ("attn1.to_q", "attn1.to_k", "attn1.to_v"), "")
    q, k = t.rms_norm(q, ""), t.rms_norm(k, "")
    q, k = t.rotated(q, 2 * WIDE, 2 * WIDE), t.rotated(k, 2 * WIDE, 2 * WIDE)
    out = t.linear(t.attention(q, k, v, "n"), "attn1.to_out.0", "h", "w_attention")
    t.used(q, k, v)
    x, first = _wide_gated(t, x, out, widened=False), y
    y = t.cast(t.layer_norm(t.cast(x, WIDE)), t.e)
    t.used(first)
    crossed = _cross(t, y, text, "attn2.")
    t.used(out)
    x = t.add(x, crossed)
    y = _wide_modulated(t, x)
    x = _wide_gated(t, x, _feed(t, y, "ffn", ""), widened=True)
    t.used(crossed, y)
    return (x,)


def _cross(t: Tape, x: int, text: int, prefix: str) -> int:
    """Attention of the image to the text."""
    q = t.linear(x, f"{prefix}to_q", "h", "w_attention")
    k = t.linear(text, f"{prefix}to_k", f"h{TEXT}", "w_attention")
    v = t.linear(text, f"{prefix}to_v", f"h{TEXT}", "w_attention")
    q, k = t.rms_norm(q, ""), t.rms_norm(k, "text")
    out = t.linear(t.attention(q, k, v, "n"), f"{prefix}to_out.0", "h", "w_attention")
    t.used(q, k, v, x)
    return out


def ltx_block(t: Tape, s: Shape) -> tuple[int, ...]:  # noqa: ARG001
    """`LTXVideoTransformerBlock`: the same order, the stream's norms in single steps and without weights."""
    x, text = t.given("h"), t.given(f"h{TEXT}", flows=t.trains.full)
    y = t.modulated(t.rms_norm_in_steps(x, "", affine=False))
    q, k, v = matrices(t, y, ("attn1.to_q", "attn1.to_k", "attn1.to_v"), "")
    q, k = t.rms_norm(q, ""), t.rms_norm(k, "")
    rq, rk = _pairs(t, q), _pairs(t, k)
    out = t.linear(t.attention(rq, rk, v, "n"), "attn1.to_out.0", "h", "w_attention")
    t.used(rq, rk, v, y)
    x = t.add(x, t.scaled(out))
    x = t.add(x, _cross(t, x, text, "attn2."))
    y = t.modulated(t.rms_norm_in_steps(x, "", affine=False))
    return (t.add(x, t.scaled(_feed(t, y, "ff", ""))),)


def cogvideox_block(t: Tape, s: Shape) -> tuple[int, ...]:  # noqa: ARG001
    """`CogVideoXBlock`: two streams with norms of their own and one set of matrices."""
    image, text = t.given(f"h{IMAGE}"), t.given(f"h{TEXT}")
    a, b = t.modulated(t.layer_norm(image)), t.modulated(t.layer_norm(text))
    both = t.cat("h", b, a)
    q, k, v = matrices(t, both, ("attn1.to_q", "attn1.to_k", "attn1.to_v"), "")
    q, k = t.layer_norm_of_heads(q, "n"), t.layer_norm_of_heads(k, "n")
    q, k = (t.rotated_in_place(x, f"h{IMAGE}", PAIRS + t.e) for x in (q, k))
    out = t.linear(t.attention(q, k, v, "n"), "attn1.to_out.0", "h", "w_attention")
    t.used(q, k, v, a, b)
    part, rest = t.split(out, f"h{IMAGE}", f"h{TEXT}")
    image, text = t.add(image, t.scaled(part)), t.add(text, t.scaled(rest))
    a, b = t.modulated(t.layer_norm(image)), t.modulated(t.layer_norm(text))
    fed = _feed(t, t.cat("h", b, a), "ff", "")
    t.used(a, b, out)
    image = t.add(image, t.scaled(t.view(fed, f"h{IMAGE}")))
    return image, t.add(text, t.scaled(t.view(fed, f"h{TEXT}")))


def hunyuan_double(t: Tape, s: Shape) -> tuple[int, ...]:  # noqa: ARG001
    """`HunyuanVideoTransformerBlock`: two streams, positions on the image alone."""
    image, text = t.given(f"h{IMAGE}"), t.given(f"h{TEXT}")
    a, b = t.modulated(t.layer_norm(image)), t.modulated(t.layer_norm(text))
    qi, ki, vi = matrices(t, a, IMAGE_QKV, IMAGE)
    qi, ki = t.rms_norm_in_steps(qi, f"n{IMAGE}"), t.rms_norm_in_steps(ki, f"n{IMAGE}")
    qi, ki = _pairs(t, qi), _pairs(t, ki)
    qt, kt, vt = matrices(t, b, TEXT_QKV, TEXT)
    qt, kt = t.rms_norm_in_steps(qt, f"n{TEXT}"), t.rms_norm_in_steps(kt, f"n{TEXT}")
    q, k, v = t.cat("h", qi, qt), t.cat("h", ki, kt), t.cat("h", vi, vt)
    joint = t.attention(q, k, v, "n")
    t.used(qt, kt, vt)
    image_out, text_out = _joined(t, joint, a, b)
    t.used(q, k, v)
    image, text = t.add(image, t.scaled(image_out)), t.add(text, t.scaled(text_out))
    c, d = t.modulated(t.layer_norm(image)), t.modulated(t.layer_norm(text))
    e, f = _feed(t, c, "ff", IMAGE), _feed(t, d, "ff_context", TEXT)
    t.used(image_out, text_out, c, d)
    return t.add(image, t.scaled(e)), t.add(text, t.scaled(f))


def hunyuan_single(t: Tape, s: Shape) -> tuple[int, ...]:  # noqa: ARG001
    """`HunyuanVideoSingleTransformerBlock`: as Flux's, with positions on the image alone."""
    x = t.cat("h", t.given(f"h{IMAGE}"), t.given(f"h{TEXT}"))
    y = t.modulated(t.layer_norm(x))
    feed = t.activation(t.linear(y, "proj_mlp", "i", "w_up"))
    own = t.cat("h", *t.split(y, f"h{IMAGE}", f"h{TEXT}"))
    q, k, v = matrices(t, own, IMAGE_QKV, "")
    q, k = t.rms_norm_in_steps(q, "n"), t.rms_norm_in_steps(k, "n")
    rq, rk = _half_rotated(t, q), _half_rotated(t, k)
    joint = t.attention(rq, rk, v, "n")
    t.used(rq, rk, v, own)
    out = t.cat("h", *t.split(joint, f"h{IMAGE}", f"h{TEXT}"))
    both = t.cat("both", out, feed)
    t.used(out, feed, y, joint)
    out = t.scaled(t.linear(both, "proj_out", "h", "w_out"))
    t.used(both)
    return t.split(t.add(out, x), f"h{IMAGE}", f"h{TEXT}")


def _half_rotated(t: Tape, x: int) -> int:
    image, text = t.view(x, f"h{IMAGE}"), t.view(x, f"h{TEXT}")
    y = t.cat("h", _pairs(t, image), text)
    t.used(x)
    return y


def z_image_block(t: Tape, s: Shape) -> tuple[int, ...]:  # noqa: ARG001
    """`ZImageTransformerBlock`: one stream, four norms in single steps, a gated feed-forward part."""
    x = t.given("h")
    y = t.scaled(t.rms_norm_in_steps(x, ""))
    q, k, v = matrices(t, y, ("attention.to_q", "attention.to_k", "attention.to_v"), "")
    q, k = t.rms_norm_in_steps(q, "n"), t.rms_norm_in_steps(k, "n")
    q, k = _complex(t, q), _complex(t, k)
    out = t.linear(t.attention(q, k, v, "n"), "attention.to_out.0", "h", "w_attention")
    t.used(q, k, v, y)
    x = t.add(x, t.scaled(t.rms_norm_in_steps(out, "")))
    y = t.scaled(t.rms_norm_in_steps(x, ""))
    gate, up = t.linear(y, "feed_forward.w1", "i", "w_up"), t.linear(y, "feed_forward.w3", "i", "w_up")
    fed = t.linear(t.times(t.activation(gate), up), "feed_forward.w2", "h", "w_down")
    t.used(y, gate, up, out)
    return (t.add(x, t.scaled(t.rms_norm_in_steps(fed, ""))),)
