"""Encoders of text on a tape: BERT and its relatives, ModernBERT, with the head of their task.

Source: `modeling_bert.py`, `modeling_roberta.py`, `modeling_distilbert.py`, `modeling_modernbert.py` of transformers
5.24. Names that hold tensors are those of these functions: a caller holds what it passes in until the callee is done.
"""

from typing import Final

from planner.encoders.attention import Attends, attend
from planner.encoders.loop import Loop, closed
from planner.encoders.tape import Tape
from planner.ledger import Category
from planner.model.spec import ModelSpec
from planner.model.task_heads import TRANSFORM

TYPES: Final = frozenset({"bert", "roberta", "xlm-roberta", "electra"})
"""Classes with embeddings of token types."""
DROPS_ATTENTION: Final = frozenset({"bert", "roberta", "xlm-roberta", "electra"})
"""Classes with dropout between the attention's output and its norm; DistilBERT has none there."""


def write_bert(t: Tape, model: ModelSpec, loop: Loop) -> int:
    """BERT, RoBERTa, XLM-RoBERTa, DistilBERT. Returns the loss."""
    kind = model.model_type
    ids, labels = t.make("t", 8), t.make("t" if loop.pretrains else "b", 8)
    t.note([], [ids, labels])
    x = first = _embeddings(t, model, loop, ids)
    for _ in range(model.num_layers):
        with t.again():
            y = _bert_layer(t, x, kind, model.hidden_act)
        t.used(x)
        x = y
    t.used(first)
    logits = masked_lm(t, x, model) if loop.pretrains else _classifier(t, x, kind)
    return closed(t, logits, labels, loop, (ids, labels, x))


def _embeddings(t: Tape, model: ModelSpec, loop: Loop, ids: int) -> int:
    tied = loop.tied and loop.pretrains
    words = t.embedded(ids, "t*h", t.elements("V*h"), leaf=loop.asks, again=tied)
    held, x = [words], words
    if model.model_type in TYPES:
        kinds = t.embedded(ids, "t*h", t.elements("h") * loop.types)
        x = t.add(words, kinds)
        held += [kinds, x]
    places = t.embedded(ids, "s*h", t.elements("h") * loop.positions)
    x = _plus(t, x, places)
    y = t.dropped(t.layer_norm(x))
    t.used(*held, places)
    return y


def _plus(t: Tape, x: int, small: int) -> int:
    """A sum with something that stands for every sequence."""
    y = t.like(x, flows=t.flows(x, small))
    t.note([x, small], [y], same=[x], new=[small])
    return y


def _bert_layer(t: Tape, x: int, kind: str, act: str) -> int:
    names = ("q_lin", "k_lin", "v_lin") if kind == "distilbert" else ("query", "key", "value")
    q, k, v = (t.linear(x, f"layer.{name}", "h") for name in names)
    a, weights = attend(t, q, k, v, Attends())
    t.used(q, k, v)
    scores = () if weights is None else (weights,)
    distil = kind == "distilbert"
    o = t.linear(a, "layer.out_lin" if distil else "layer.attention.output.dense", "h")
    d = o if distil else t.dropped(o)
    y = t.layer_norm(t.add(d, x))
    t.used(a, d, x) if distil else t.used(a, x)
    up = t.linear(y, "layer.lin1" if distil else "layer.intermediate.dense", "i")
    g = t.act(act, up)
    fed = t.dropped(t.linear(g, "layer.lin2" if distil else "layer.output.dense", "h"))
    z = t.layer_norm(t.add(fed, y))
    t.used(g, fed, y, x, *scores) if not distil else t.used(fed, y, x, *scores)
    return z


def masked_lm(t: Tape, x: int, model: ModelSpec) -> int:
    """A transform and the output matrix over all positions."""
    modern = model.model_type == "modernbert"
    y = t.linear(x, TRANSFORM, "h", bias=not modern)
    y = t.layer_norm(t.act(model.hidden_act, y), bias=not modern)
    logits = t.linear(y, "decoder", "V", category=Category.LOGITS)
    t.used(y)
    return logits


def _classifier(t: Tape, x: int, kind: str) -> int:
    """A classifier on the first token; new, so that it is trained whole beside adapters."""
    first = t.sliced(x, "b*h")
    if kind == "bert":
        first = t.act("tanh", t.linear(first, "pooler.dense", "h"))
        first = t.dropped(first)
    else:
        first = t.dropped(first) if kind != "distilbert" else first
        first = t.act("relu" if kind == "distilbert" else "tanh", t.linear(first, "head", "h", trains=True))
        first = t.dropped(first)
    return t.linear(first, "classifier", "C", trains=True)
