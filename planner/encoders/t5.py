"""T5 on a tape, with relu or gated, as `modeling_t5.py` of transformers 5.24 runs it.

Norms are single steps in fp32; a bias of relative positions, learned once in each stack, is added to all scores, which
leaves a fused kernel the memory-efficient one. Names that hold tensors are those of the class's functions.
"""

from planner.encoders.attention import Attends, attend
from planner.encoders.loop import Loop, closed
from planner.encoders.operations import WIDE
from planner.encoders.tape import Tape
from planner.ledger import Category
from planner.model.spec import Layer, ModelSpec


def write_t5(t: Tape, model: ModelSpec, loop: Loop) -> int:
    """The whole network. Returns the loss."""
    ids, labels, shifted = t.make("t", 8), t.make("w", 8), t.make("w", 8)
    t.note([], [ids, labels])
    words = t.embedded(ids, "t*h", t.elements("V*h"), leaf=loop.asks, again=True)
    x = t.dropped(words)
    memory = _stack(t, x, model.encoder_layers, model, None, "s")
    t.used(words)
    t.note([labels], [shifted])
    words = t.embedded(shifted, "w*h", t.elements("V*h"), leaf=loop.asks, again=loop.tied)
    x = t.dropped(words)
    y = _stack(t, x, model.layers, model, memory, "u")
    t.used(words)
    read = t.elementwise(y, keeps="") if loop.scales else y
    logits = t.linear(read, "lm_head", "V", bias=False, category=Category.LOGITS)
    return closed(t, logits, labels, loop, (ids, labels, shifted, memory, y, read))


def _stack(
    t: Tape, x: int, layers: tuple[Layer, ...], model: ModelSpec, memory: int | None, side: str
) -> int:
    """`T5Stack.forward` from the embedding on."""
    first, bias, other = x, None, None
    for layer in layers:
        with t.again():
            y, bias, other = _block(t, x, layer, model, memory, side, (bias, other))
        t.used(x)
        x = y
    normed = _norm(t, x)
    out = t.dropped(normed)
    t.used(first, x, *(one for one in (bias, other) if one is not None))
    return out


def _norm(t: Tape, x: int) -> int:
    """`T5LayerNorm`: an fp32 copy squared, its mean, a product, a cast to the weight's format, the weight."""
    e, trains = t.size(x), t.runs.trains
    tokens, _, width = t.key(x).rpartition("*")
    wide = t.cast(x, WIDE)
    squared = t.like(wide)
    t.note([wide], [squared], saves=[wide], new=[wide], working_back={t.key(x): 2 * WIDE})
    root = t.make(tokens, WIDE, flows=t.flows(x))
    t.note([squared], [root], saves=[root], new=[squared])
    scaled = t.like(x, WIDE)
    cast_back = WIDE if e < WIDE else 0
    t.note(
        [x, root], [scaled], saves=[x, root] if t.flows(x) else [], new=[x, root],
        working_back={t.key(x): WIDE + cast_back},
    )  # fmt: skip
    small = t.cast(scaled, t.runs.stored_bytes)
    y = t.like(small, flows=trains or t.flows(x))
    t.note(
        [small], [y], saves=[small] if trains else [], new=[small],
        working_back={t.key(small): t.size(small)} if trains else {},
        arrives=t.elements(width) if trains else 0,
    )  # fmt: skip
    return y


def _block(
    t: Tape,
    x: int,
    layer: Layer,
    model: ModelSpec,
    memory: int | None,
    side: str,
    biases: tuple[int | None, int | None],
) -> tuple[int, int, int | None]:
    bias, other = biases
    y, bias, weights = _attention(t, x, None, side, bias, causal=memory is not None)
    crossed = None
    if memory is not None:
        z, other, crossed = _attention(t, y, memory, side, other, causal=False)
        t.used(y)
        y = z
    out = _feed(t, y, layer, model)
    t.used(x, y, *(one for one in (weights, crossed) if one is not None))
    return out, bias, other


def _attention(
    t: Tape, x: int, memory: int | None, side: str, bias: int | None, *, causal: bool
) -> tuple[int, int, int | None]:
    """`T5LayerSelfAttention`, `T5LayerCrossAttention`."""
    prefix = "block." if memory is None else "block.EncDecAttention."
    normed = _norm(t, x)
    source = normed if memory is None else memory
    keys = side if memory is None else "s"
    q = t.linear(normed, f"{prefix}q", "q", bias=False)
    k = t.linear(source, f"{prefix}k", "q", bias=False)
    v = t.linear(source, f"{prefix}v", "q", bias=False)
    if bias is None:
        bias = _bias(t, side, keys, learned=memory is None)
    how = Attends(
        queries=side, keys=keys, mask=_mask(t, bias, side, keys, memory, causal=causal), scales=True
    )
    a, weights = attend(t, q, k, v, how)
    t.used(q, k, v)
    o = t.linear(a, f"{prefix}o", "h", bias=False, width="q")
    t.used(a)
    d = t.dropped(o)
    y = t.add(x, d)
    t.used(o, normed, x)
    return y, bias, weights


def _mask(t: Tape, bias: int, side: str, keys: str, memory: int | None, *, causal: bool) -> int:
    """What the scores get: the bias in order, cut where the stack is causal (`create_position_bias_mask`)."""
    if t.runs.eager or memory is not None:
        return bias
    if not causal:
        return t.moved(bias)
    place = t.make(f"{side}*{keys}", 1)
    shown = t.like(bias)
    t.note([bias], [shown, place], saves=[place], new=[bias])
    return t.moved(shown)


def _bias(t: Tape, side: str, keys: str, *, learned: bool) -> int:
    """A number for each head, query and key: looked up by distance, or zeros for the other stack's keys."""
    key = f"n*{side}*{keys}"
    if not learned:
        zeros = t.make(key, t.e, flows=t.runs.checkpointed)
        t.note([], [zeros])
        return zeros
    places = t.make(f"{side}*{keys}", 8)
    t.note([], [places])
    y = t.make(key, t.runs.stored_bytes, flows=t.runs.trains)
    t.note([places], [y], saves=[places], arrives=32 * t.numbers["n"] if t.runs.trains else 0)
    return y


def _feed(t: Tape, x: int, layer: Layer, model: ModelSpec) -> int:
    """`T5LayerFF`."""
    normed = _norm(t, x)
    act = model.hidden_act
    if layer.mlp.gated:
        gate = t.act(act, t.linear(normed, "block.wi_0", "i", bias=False))
        up = t.linear(normed, "block.wi_1", "i", bias=False)
        y = t.times(gate, up)
        fed = t.dropped(y)
        held = [gate, up]
    else:
        fed = t.dropped(t.act(act, t.linear(normed, "block.wi", "i", bias=False)))
        held = []
    wide = t.cast(fed, t.runs.stored_bytes)
    o = t.linear(wide, "block.wo", "h", bias=False)
    t.used(normed, *held)
    d = t.dropped(o)
    y = t.add(x, d)
    t.used(o, x)
    return y
