"""Whisper on a tape, as `modeling_whisper.py` of transformers 5.24 runs it.

Two convolutions halve the frames of half a minute of sound; queries, keys and values are put in order before the
kernel, so that its output is put in order again. The encoder's positions are fixed. Names that hold tensors are those
of the classes' functions.
"""

from planner.encoders.attention import Attends, attend
from planner.encoders.loop import Loop, closed
from planner.encoders.tape import Tape
from planner.ledger import Category
from planner.model.spec import ModelSpec


def write_whisper(t: Tape, model: ModelSpec, loop: Loop) -> int:
    """The whole network. Returns the loss."""
    sound, labels, shifted = t.make("m", t.runs.given_bytes), t.make("w", 8), t.make("w", 8)
    t.note([], [sound, labels])
    t.note([labels], [shifted])
    memory = _encoder(t, sound, model, loop)
    words = t.embedded(shifted, "w*h", t.elements("V*h"), leaf=loop.asks, again=loop.tied)
    places = t.embedded(shifted, "w*h", t.elements("h") * loop.targets)
    x = first = t.dropped(t.add(words, places))
    for _ in model.layers:
        with t.again():
            y = _layer(t, x, model, memory)
        t.used(x)
        x = y
    y = t.layer_norm(x)
    t.used(first, words, places, x)
    logits = t.linear(y, "proj_out", "V", bias=False, category=Category.LOGITS)
    return closed(t, logits, labels, loop, (sound, labels, shifted, memory, y))


def _encoder(t: Tape, sound: int, model: ModelSpec, loop: Loop) -> int:
    del loop
    once = t.act("gelu", t.convolution(sound, "f*h", "h*a", "h"))
    twice = t.act("gelu", t.convolution(once, "t*h", "3*h*h", "h"))
    t.used(once)
    places = t.make("s*h", t.runs.stored_bytes)
    t.note([], [places])
    size = max(t.size(twice), t.size(places))
    x = t.like(twice, size)
    t.note(
        [twice, places],
        [x],
        same=[twice] if t.size(twice) == size else [],
        new=[] if t.size(twice) == size else [twice],
    )
    held = twice
    x = t.dropped(x)
    for _ in model.encoder_layers:
        with t.again():
            y = _layer(t, x, model, None)
        t.used(x)
        x = y
    out = t.layer_norm(x)
    t.used(held, x)
    return out


def _layer(t: Tape, x: int, model: ModelSpec, memory: int | None) -> int:
    """`WhisperEncoderLayer`, `WhisperDecoderLayer`."""
    decodes, side = memory is not None, "s" if memory is None else "u"
    y = t.layer_norm(x)
    z, weights = _attended(t, x, y, None, side)
    held = [] if weights is None else [weights]
    if decodes:
        n = t.layer_norm(z)
        z2, crossed = _attended(t, z, n, memory, side)
        held += [] if crossed is None else [crossed]
        t.used(z)
        z = z2
    f = t.layer_norm(z)
    fed = t.linear(t.act(model.hidden_act, t.linear(f, "layer.fc1", "i")), "layer.fc2", "h")
    d = t.dropped(fed)
    out = t.add(z, d)
    t.used(x, z, *held)
    return out


def _attended(t: Tape, x: int, y: int, memory: int | None, side: str) -> tuple[int, int | None]:
    prefix = "layer." if memory is None else "layer.encoder_attn."
    source = y if memory is None else memory
    keys = side if memory is None else "s"
    q = t.moved(t.elementwise(t.linear(y, f"{prefix}q_proj", "h"), keeps=""))
    k = t.moved(t.linear(source, f"{prefix}k_proj", "h", bias=False))
    v = t.moved(t.linear(source, f"{prefix}v_proj", "h"))
    how = Attends(queries=side, keys=keys, copies=False, causal=side == "u" and memory is None)
    a, weights = attend(t, q, k, v, how)
    t.used(q, k, v)
    o = t.linear(a, f"{prefix}out_proj", "h")
    t.used(a, y)
    z = t.add(x, t.dropped(o))
    t.used(o)
    return z, weights
