"""ModernBERT on a tape, as `modeling_modernbert.py` of transformers 5.24 runs it.

One matrix for queries, keys and values, of which the values stay a view; rotary positions in fp32; a mask in layers
with a window. Names that hold tensors are those of the class's functions.
"""

from planner.encoders.attention import Attends, attend
from planner.encoders.loop import Loop, closed
from planner.encoders.operations import WIDE
from planner.encoders.tape import Tape
from planner.encoders.text import masked_lm
from planner.model.spec import AttentionKind, ModelSpec


def write_modernbert(t: Tape, model: ModelSpec, loop: Loop) -> int:
    """The whole network. Returns the loss."""
    ids, labels = t.make("t", 8), t.make("t" if loop.pretrains else "b", 8)
    t.note([], [ids, labels])
    words = t.embedded(ids, "t*h", t.elements("V*h"), leaf=loop.asks, again=loop.tied and loop.pretrains)
    x = first = t.layer_norm(words, bias=False)
    t.used(words)
    mask = _mask(t, model)
    tables = t.make("s*d", 4 * t.size(x))
    t.note([], [tables])
    for index, layer in enumerate(model.layers):
        window = layer.attention.kind is AttentionKind.SLIDING
        with t.again():
            y = _layer(t, x, model, tables, mask if window else None, normed=index > 0)
        t.used(x)
        x = y
    out = t.layer_norm(x, bias=False)
    t.used(first, x, tables, *(() if mask is None else (mask,)))
    if loop.pretrains:
        logits = masked_lm(t, out, model)
        return closed(t, logits, labels, loop, (ids, labels, out), own=False, wide=True)
    token = t.linear(
        t.sliced(out, "b*h"), "head.dense", "h", bias=False, trains=False if not t.runs.trains else None
    )
    pooled = t.layer_norm(t.act(model.hidden_act, token), bias=False)
    return closed(t, t.linear(pooled, "classifier", "C", trains=True), labels, loop, (ids, labels, out))


def _mask(t: Tape, model: ModelSpec) -> int | None:
    """True where tokens see each other in layers with a window, half of it to each side; numbers in single steps."""
    windows = [layer.attention.window for layer in model.layers if layer.attention.window]
    if not windows or min(windows) // 2 >= t.numbers["s"]:
        return None
    mask = t.make("b*s*s", t.runs.stored_bytes if t.runs.eager else 1)
    t.note([], [mask])
    return mask


def _layer(t: Tape, x: int, model: ModelSpec, tables: int, mask: int | None, *, normed: bool) -> int:
    y = t.layer_norm(x, bias=False) if normed else x
    fused = t.linear(y, "layer.Wqkv", "3*h", bias=False, width="h")
    q, k, v = t.split(fused, "t*h", "t*h", "t*h")
    rq, rk = _rotated(t, q, tables), _rotated(t, k, tables)
    bias = None
    if mask is not None and not t.runs.eager:
        bias = t.make("b*s*s", t.e)
        t.note([mask], [bias])
    how = Attends(upcasts=True, fixed_bias=bias, causal=mask is not None)
    a, weights = attend(t, rq, rk, v, how)
    t.used(q, k, fused, rq, rk)
    o = t.linear(a, "layer.attn.Wo", "h", bias=False)
    t.used(a, y)
    z = t.add(x, o)
    t.used(o, x)
    f = t.layer_norm(z, bias=False)
    both = t.linear(f, "layer.Wi", "2*i", bias=False, width="h")
    up, gate = t.split(both, "t*i", "t*i")
    fed = t.linear(t.times(t.act(model.hidden_act, up), gate), "layer.mlp.Wo", "h", bias=False)
    t.used(up, gate, f)
    out = t.add(z, fed)
    t.used(x, z, o, *(one for one in (weights, mask) if one is not None))
    return out


def _rotated(t: Tape, x: int, tables: int) -> int:
    """`apply_rotary_pos_emb`: two fp32 copies, one of which has its halves crosswise."""
    e = t.size(x)
    straight = _times_table(t, t.cast(x, WIDE), tables)
    wide = t.cast(x, WIDE)
    half = t.make(t.key(x), WIDE / 2, flows=t.flows(x))
    t.note([wide], [half], new=[wide])
    crossed = t.like(wide)
    t.note([half, wide], [crossed], same=[half])
    both = t.add(straight, _times_table(t, crossed, tables))
    t.used(x, straight)
    return t.cast(both, e)


def _times_table(t: Tape, x: int, tables: int) -> int:
    """Times cosine or sine, which is kept."""
    y = t.like(x)
    t.note([x, tables], [y], saves=[tables], new=[x])
    return y
