"""Encoders of pictures on a tape: ViT and DINOv2 with a classifier, CLIP and SigLIP.

Source: `modeling_vit.py`, `modeling_dinov2.py`, `modeling_clip.py` and `modeling_siglip.py` of transformers 5.24.
Pictures are as large as the model's own. Names that hold tensors are those of the classes' functions.
"""

from dataclasses import dataclass
from typing import Final

from planner.encoders.attention import Attends, attend
from planner.encoders.loop import Loop, closed
from planner.encoders.operations import WIDE
from planner.encoders.sizes import config_of
from planner.encoders.tape import Tape
from planner.model.own_tokens import nested, number
from planner.model.spec import ModelSpec

TANH: Final = "gelu_pytorch_tanh"
"""`SiglipTextConfig.hidden_act`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A layer with norms before its halves.

    Attributes:
        output: Name of the attention's output matrix.
        hidden: Symbol of the width.
        inner: Symbol of the feed-forward width.
        act: Activation.
        upcasts: The softmax in single steps is asked for fp32.
        scales: Each half is multiplied by a weight for each width (DINOv2).
        causal: Tokens see those before them.
        positions: Symbol of the positions of a sequence.
        heads: Symbol of the heads.
        head: Symbol of a head's width, rounded.
    """

    output: str = "o_proj"
    hidden: str = "h"
    inner: str = "i"
    act: str = "gelu"
    upcasts: bool = True
    scales: bool = False
    causal: bool = False
    positions: str = "s"
    heads: str = "n"
    head: str = "d64"


def layer(t: Tape, x: int, kind: Block) -> int:
    """Attention and feed-forward part, each after a norm, each added to the stream."""
    y = t.layer_norm(x)
    q, k, v = (
        t.linear(y, f"layer.{name}", kind.hidden, width=kind.hidden)
        for name in ("q_proj", "k_proj", "v_proj")
    )
    how = Attends(
        queries=kind.positions,
        keys=kind.positions,
        upcasts=kind.upcasts,
        causal=kind.causal,
        heads=kind.heads,
        head=kind.head,
    )
    a, weights = attend(t, q, k, v, how)
    t.used(q, k, v)
    o = t.linear(a, f"layer.{kind.output}", kind.hidden, width=kind.hidden)
    t.used(a, y)
    d = t.dropped(t.scaled(o, kind.hidden) if kind.scales else o)
    z = t.add(d, x)
    t.used(o, d)
    f = t.layer_norm(z)
    up = t.linear(f, "layer.fc1", kind.inner, width=kind.hidden)
    fed = t.linear(t.act(kind.act, up), "layer.fc2", kind.hidden, width=kind.inner)
    t.used(f)
    e = t.dropped(t.scaled(fed, kind.hidden) if kind.scales else fed)
    out = t.add(e, z)
    t.used(x, z, *(() if weights is None else (weights,)))
    return out


def patches(t: Tape, *, bias: bool, leaf: bool, held: list[int], token: bool = True) -> int:
    """Pictures cut into patches with a token before them, if there is one, and positions."""
    pixels = t.make("c", WIDE)
    t.note([], [pixels])
    held.append(pixels)
    read = t.cast(pixels, t.runs.stored_bytes)
    x = t.convolution(read, "p*h", "h*a", "h" if bias else "", leaf=leaf)
    if t.runs.autocast:
        x = t.cast(x, t.runs.stored_bytes)
    rows = x
    if token:
        rows = t.make("t*h", t.size(x), flows=t.flows(x) or t.runs.trains)
        t.note([x], [rows], same=[x] if t.flows(x) else [], arrives=t.elements("h") if t.runs.trains else 0)
    y = t.like(rows)
    t.note([rows], [y], same=[rows], arrives=t.elements("s*h") if t.runs.trains else 0)
    t.used(x, rows, read)
    return y


def write_vit(t: Tape, model: ModelSpec, loop: Loop) -> int:
    """ViT, DINOv2. Returns the loss."""
    dino = model.model_type == "dinov2"
    labels = t.make("b", 8)
    t.note([], [labels])
    held = [labels]
    x = first = t.dropped(patches(t, bias=True, leaf=loop.asks, held=held))
    kind = Block(act=model.hidden_act, upcasts=not dino, scales=dino)
    for _ in range(model.num_layers):
        with t.again():
            y = layer(t, x, kind)
        t.used(x)
        x = y
    normed = t.layer_norm(x)
    t.used(first, x)
    if dino:
        token, rest = t.sliced(normed, "b*h"), t.sliced(normed, "p*h")
        mean = t.make("b*h", t.size(normed), flows=t.flows(normed))
        t.note([rest], [mean], new=[rest])
        both = t.make("b*2*h", t.size(normed), flows=t.flows(normed))
        t.note([token, mean], [both], same=[token, mean])
        logits = t.linear(both, "classifier", "C", width="2*h", trains=True)
    else:
        logits = t.linear(t.sliced(normed, "b*h"), "classifier", "C", trains=True)
    return closed(t, logits, labels, loop, (*held, normed), own=False)


def write_siglip(t: Tape, model: ModelSpec, loop: Loop) -> int:
    """SigLIP: no token before the patches, one query that pools them, no mask on the text. Returns the loss."""
    config = config_of(model)
    text, image = nested(config, "text_config"), nested(config, "vision_config")
    ids = t.make("z", 8)
    t.note([], [ids])
    held = [ids]
    x = patches(t, bias=True, leaf=loop.asks, held=held, token=False)
    kind = Block(output="out_proj", act=_act(image, TANH))
    pooled, first = _tower(t, x, number(image, "num_hidden_layers"), kind)
    normed = t.layer_norm(pooled)
    t.used(pooled, *first)
    both = t.moved(t.linear(t.moved(normed), "head.kv", "2*h", width="h"))
    view = t.make("b*h", t.e, flows=True)
    params = t.elements("2*h*h") + t.elements("2*h*i") if t.runs.trains else 0
    t.note([both], [view], saves=[both], new=[both], arrives=params)
    words = t.embedded(ids, "z*g", t.elements("T*g"), leaf=loop.asks)
    places = t.embedded(ids, "j*g", t.elements("j*g"))
    y = t.like(words, flows=t.flows(words, places))
    t.note([words, places], [y], same=[words], new=[places])
    t.used(words, places)
    kind = Block(
        output="out_proj", hidden="g", inner="k", act=_act(text, TANH), positions="j", heads="l", head="e64"
    )  # fmt: skip
    z, more = _tower(t, y, number(text, "num_hidden_layers"), kind)
    end = t.layer_norm(z)
    t.used(z, *more)
    said = t.linear(t.sliced(end, "b*g"), "head", "g")
    match = t.make("b*b", t.e, flows=True)
    t.note([view, said], [match], saves=[view, said], new=[view, said], arrives=2 if t.runs.trains else 0)
    labels = t.make("b", 8)
    t.note([], [labels])
    return closed(t, match, labels, loop, (*held, normed, end, view, said))


def write_clip(t: Tape, model: ModelSpec, loop: Loop) -> int:
    """Both towers, the image's first. Returns the loss."""
    config = config_of(model)
    text, image = nested(config, "text_config"), nested(config, "vision_config")
    ids = t.make("z", 8)
    t.note([], [ids])
    held = [ids]
    x = patches(t, bias=False, leaf=loop.asks, held=held)
    first = t.layer_norm(x)
    t.used(x)
    pooled, last = _tower(
        t, first, number(image, "num_hidden_layers"), Block(output="out_proj", act=_act(image))
    )
    view = t.linear(t.layer_norm(t.sliced(pooled, "b*h")), "visual_projection", "y", bias=False)
    words = t.embedded(ids, "z*g", t.elements("T*g"), leaf=loop.asks)
    places = t.embedded(ids, "j*g", t.elements("j*g"))
    y = t.like(words, flows=t.flows(words, places))
    t.note([words, places], [y], same=[words], new=[places])
    t.used(words, places)
    kind = Block(
        output="out_proj", hidden="g", inner="k", act=_act(text), causal=True,
        positions="j", heads="l", head="e64",
    )  # fmt: skip
    z, more = _tower(t, y, number(text, "num_hidden_layers"), kind)
    end = t.layer_norm(z)
    t.used(z, *more)
    chosen = t.make("b*g", t.size(end), flows=t.flows(end))
    t.note([end], [chosen], new=[end])
    said = t.linear(chosen, "text_projection", "y", bias=False)
    t.used(pooled, *last)
    match = t.make("b*b", t.e, flows=True)
    t.note([view, said], [match], saves=[view, said], new=[view, said], arrives=1 if t.runs.trains else 0)
    labels = t.make("b", 8)
    t.note([], [labels])
    return closed(t, match, labels, loop, (*held, pooled, end, view, said))


def _act(config: object, default: str = "quick_gelu") -> str:
    found = config.get("hidden_act") if isinstance(config, dict) else None
    return found if isinstance(found, str) else default


def _tower(t: Tape, x: int, count: int, kind: Block) -> tuple[int, tuple[int, ...]]:
    first = x
    for _ in range(count):
        with t.again():
            y = layer(t, x, kind)
        t.used(x)
        x = y
    return x, (first,)
