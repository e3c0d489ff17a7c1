"""Attention on a tape, by fused kernels and in single steps."""

from dataclasses import dataclass

from planner.encoders.operations import WIDE
from planner.encoders.tape import Tape
from planner.memory.terms import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Attends:
    """How one attention is computed.

    Attributes:
        queries: Symbol of the query positions of a sequence.
        keys: Symbol of its key positions.
        upcasts: The softmax in single steps is fp32 whatever comes in.
        copies: Heads lie one after the other, so that products need no copy of them, and the output is put in order.
        scales: Scores are multiplied; not where the queries were.
        causal: A mask is added to the scores in single steps.
        mask: A tensor that is added to the scores: its bytes are there already.
        fixed_bias: A mask that the kernel keeps, to which no gradient comes.
        heads: Symbol of the number of heads.
        head: Symbol of a head's width, rounded.
    """

    queries: str = "s"
    keys: str = "s"
    upcasts: bool = False
    copies: bool = True
    scales: bool = True
    causal: bool = False
    mask: int | None = None
    fixed_bias: int | None = None
    heads: str = "n"
    head: str = "d64"


def attend(t: Tape, q: int, k: int, v: int, how: Attends) -> tuple[int, int | None]:
    """The output, and the scores that the function returns beside it in single steps."""
    q, k, v = (t.lowered(x) for x in (q, k, v))
    return _in_steps(t, q, k, v, how) if t.runs.eager else (_fused(t, q, k, v, how), None)


def _fused(t: Tape, q: int, k: int, v: int, how: Attends) -> int:
    """Keeps queries, keys, values, its output, and a number for each row of scores."""
    mask = how.mask
    if mask is not None:
        mask = t.lowered(mask)
    efficient = t.e == WIDE or mask is not None or not t.runs.flash
    rows = f"b*{how.heads}*{how.queries}" + ("32" if efficient else "")
    given = [x for x in (q, k, v, mask, how.fixed_bias) if x is not None]
    y, sums = t.like(q, flows=t.flows(*given)), t.make(rows, WIDE)
    back: Terms = {f"b*{how.heads}*{how.queries}": WIDE}
    if t.e < WIDE:
        back[f"b*{how.heads}*{how.queries}128*{how.head}"] = WIDE
    new, beside = [q, k, v], Terms()
    if mask is not None and t.flows(mask):
        beside[f"b*{how.heads}*{how.queries}*{how.keys}"] = t.e
        new.append(mask)
    t.note(given, [y, sums], saves=[*given, y, sums], new=new, working=back, working_back=beside)
    return t.moved(y) if not how.copies and not efficient else y


def _in_steps(t: Tape, q: int, k: int, v: int, how: Attends) -> tuple[int, int]:
    """`eager_attention_forward`: a product, its scale, masks, a softmax, dropout, a product."""
    names = (q, k, v)
    several = t.numbers["b"] > 1
    if how.copies and several:
        q, k = t.moved(q), t.moved(k)
    square = f"b*{how.heads}*{how.queries}*{how.keys}"
    scores = t.make(square, t.e, flows=t.flows(q, k))
    t.note([q, k], [scores], saves=_factors(t, q, k), new=[q, k])
    if how.scales:
        scores = t.elementwise(scores, keeps="")
    if how.mask is not None:
        masked = t.like(scores, max(t.size(scores), t.size(how.mask)))
        t.note([scores, how.mask], [masked], same=[scores], new=[how.mask])
        scores = masked
    if how.causal:
        scores = t.elementwise_same(scores)
    chances = t.elementwise(t.cast(scores, WIDE) if how.upcasts else t.raised(scores), keeps="output")
    if how.upcasts:
        chances = t.cast(chances, t.e if t.runs.autocast else t.size(q))
    t.used(scores)
    weights = t.dropped(chances)
    low = t.lowered(weights)
    if how.copies and several:
        v = t.moved(v)
    out = t.like(q, t.e, flows=t.flows(low, v))
    t.note([low, v], [out], saves=_factors(t, low, v), new=[low, v])
    y = t.moved(out)
    t.used(*names, weights)
    return y, weights


def _factors(t: Tape, x: int, y: int) -> list[int]:
    return [*([x] if t.flows(y) else []), *([y] if t.flows(x) else [])]
