"""Inside a layer's backward pass: what is there beyond what the layer had kept, at its fullest."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from planner.ledger import Category, Entry
from planner.memory.activations import COMPOSED_GELU
from planner.memory.inventory import Tensor
from planner.memory.layer_view import RUNS_TRANSFORMERS, expert_bytes, groups_experts
from planner.memory.terms import Terms, add, exact, item, per_token, scaled, summed, whole
from planner.model.spec import MlpKind
from planner.training.adapters import (
    adapts_down,
    at_up_projection,
    inner_width,
    read_by_adapter,
    transient,
    unpacked,
)
from planner.training.optimizer_step import step_tensors
from planner.training.saved import reads_stored
from planner.training.setup import Setup, fused_kernels
from planner.training.step import BACKWARD, Kind, Step, once_a_layer
from planner.units import ceil_div

SCORES = "g*b*n*s*s - t*y"
STREAM = "t*k*h*r"
SHARED_FIRST: Final = frozenset({"qwen2_moe", "qwen3_next"})
"""Model types whose shared expert runs before the routed ones, so that its backward pass comes after theirs."""
HOLDS_SCORES: Final = frozenset({"bloom"})
NORM_TENSORS: Final = 5
"""fp32 tensors of the backward pass of an RMS norm composed of single steps."""


def inner_tensors(setup: Setup, *, gated: bool) -> int:
    """Gradients inside a feed-forward part that are alive beyond what their arrival frees.

    A gated part has the product's, the activation's and the up projection's at once; the product itself goes when its
    gradient comes, if it was kept at all (it is not, for a frozen projection without an adapter).
    """
    kept = setup.adapter is None
    if "swiglu" in fused_kernels(setup):
        return 0 if kept else 1
    return (3 if gated else 2) - (1 if kept else 0)


def composed_tensors(step: Step) -> float:
    """The same of a GELU put together from single steps, in tensors of products; 0 for any other activation.

    Both factors' gradients and the product's; under autocast these three are fp32, beside a 16-bit one.
    An adapter has read a cast of the product, which is gone when its gradient is added to the base's, all fp32.
    Packed matrices hand over fp32, which makes all of them alike; one of the factors goes with its gradient. Before
    that the product's two gradients and their sum are there, and the cast that the adapter had read is gone.
    """
    setup = step.setup
    if setup.runtime not in RUNS_TRANSFORMERS or step.model.hidden_act not in COMPOSED_GELU or setup.compiled:
        return 0
    if any(kind.layer.mlp.gated for kind in step.kinds):
        return 0
    if setup.product_bytes > setup.compute_bytes:
        plain = setup.adapter is not None and not setup.adapter.dropout
        reads = plain and any(adapts_down(setup, kind) for kind in step.kinds)
        return exact(3 - setup.compute_bytes / setup.product_bytes) if reads else 2
    alive = (3 * 4 + setup.compute_bytes) / setup.compute_bytes if setup.autocast else 3
    if setup.adapter is None:
        return exact(alive - 1)
    adapted = any(adapts_down(setup, kind) for kind in step.kinds)
    read = setup.compute_bytes if setup.autocast else setup.train_bytes
    if adapted and setup.autocast and not setup.adapter.dropout:
        return exact((3 * 4 - read) / setup.product_bytes)
    gone = (read + 1) / setup.product_bytes if adapted and setup.adapter.dropout else 0
    return exact(alive - gone)


@once_a_layer
def layer_gradients(step: Step, kind: Kind, *, counted: int = 0) -> list[Entry]:
    """Inside a layer: the stream's gradient, what checkpointing adds, and the feed-forward part's own gradients.

    Args:
        step: The step.
        kind: The layer.
        counted: Tensors as wide as the stream that count elsewhere: its input among the stored ones, its output's
            gradient among retained ones.
    """
    if kind.form.working is not None:
        return [_working(step, kind, kind.form.working)]
    amount, symbols = _stream(step, kind, counted=counted)
    stream = STREAM
    wide, formula = _product(step, kind, symbols)
    others = []
    if kind.form.ends:
        gone = per_token(kind.form.ends, kind.form.widths)
        symbols |= {"z": exact(gone)}
        stream = f"{STREAM} - t*z"
        amount -= symbols["t"] * gone
        if step.model.norm != "layer_norm" and "rms_norm" not in fused_kernels(step.setup):
            backward = symbols["t"] * (NORM_TENSORS * 4 * symbols["h"] + gone)
            wide, others = max(wide, backward), [f"t*({NORM_TENSORS * 4}*h + z)"]
    if kind.form.score_gradients:
        wide, others = max(wide, _scores(step, kind, symbols)), [*others, SCORES]
    if step.setup.checkpointed and not kind.form.piece and (found := transient(step, kind)) is not None:
        wide, others, more = max(wide, found[0]), [*others, "t*(p*i + o*h)"], found[2]
        symbols |= {name: more[name] for name in ("p", "o")} | {"i": more["i"]}
    cut = bool(kind.form.piece)
    if step.setup.checkpointed and not cut and (again := at_up_projection(step, kind)) is not None:
        wide, others = max(wide, again[0]), [*others, again[1]]
        symbols |= again[2]
    for amount_of, formula_of, named in () if cut else unpacked(step, kind):
        wide, others = max(wide, amount_of), [*others, formula_of]
        symbols |= named
    if others:
        return [
            _layer_gradients(amount + wide, f"ceil({stream} + max({formula}, {', '.join(others)}))", symbols)
        ]
    return [_layer_gradients(amount + wide, f"ceil({STREAM} + {formula})", symbols)]


def _working(step: Step, kind: Kind, working: Terms) -> Entry:
    """Of a denoiser's block: the fullest moment of its backward pass, less what it keeps."""
    inside, tokens = summed(working, kind.form.widths), step.setup.batch * kind.sequence
    return item(
        Category.ACTIVATIONS,
        "layer_gradients",
        max(0, whole(tokens * inside.bytes)),
        f"max(0, ceil(t*({inside.text})))",
        {"t": tokens, **inside.symbols},
        "denoiser_blocks",
        phases=BACKWARD,
    )


def at_experts(step: Step, kind: Kind) -> Kind:
    """The layer as it is when the gradient of its stacked up projections comes (`aten::_grouped_mm`'s backward).

    Of what it had kept the experts' part behind their input is gone, and the shared experts' if they ran after them.
    """
    e = expert_bytes(step.setup)
    gone = {"xi"} if step.model.model_type in SHARED_FIRST else {"xi", "si"}
    terms = {x: c for x, c in kind.form.terms.items() if x not in gone} | {"xh": e}
    return replace(kind, count=1, form=replace(kind.form, terms=terms, between=None))


def expert_gradients(step: Step, kind: Kind, *, counted: int = 0) -> list[Entry]:
    """What is there then beside it: gradients of the stream, of those products and of the gathered tokens.

    A step in the backward pass comes when those of the products have gone.
    """
    form, e = kind.form, expert_bytes(step.setup)
    amount, symbols = _stream(step, kind, counted=counted)
    ups = 0 if step.setup.optimizer.in_backward else 2 if kind.layer.mlp.gated else 1
    made = {"xi": ups * e, "xh": e}
    symbols |= {"y": exact(per_token(made, form.widths))}
    return [_layer_gradients(amount + symbols["t"] * symbols["y"], f"{STREAM} + t*y", symbols)]


def stepped_gradient(step: Step, kind: Kind) -> list[Entry]:
    """A layer's largest parameter when its gradient has come and is stepped at once (`in_backward`), with the stream's.

    Stacked experts are `expert_gradients`'.

    The optimizer's hook runs as soon as the gradient is accumulated
    (`Tensor.register_post_accumulate_grad_hook`), and has its temporary beside it.
    """
    if not step.setup.optimizer.in_backward:
        return []
    grouped = kind.layer.mlp.kind is MlpKind.MOE and groups_experts(step.setup)
    places = {"layers", "adapter"} if grouped else {"layers", "experts", "adapter"}
    inside = [t for t in step.trained if t.place in places]
    amount, symbols = _stream(step, kind)
    return [_layer_gradients(amount, "t*k*h*r", symbols), *stepped_entries(step.setup, inside)]


def stepped_entries(setup: Setup, tensors: Sequence[Tensor]) -> list[Entry]:
    """The gradient of the largest of these parameters, and the temporary of its step."""
    largest = max((t.parameter for t in tensors), default=0)
    if not largest or not setup.optimizer.in_backward:
        return []
    k, e = 1 + step_tensors(setup), setup.gradient_bytes
    return [
        item(
            Category.GRADIENTS,
            "gradients",
            ceil_div(k * largest, setup.shard_gradients) * e,
            "ceil(k*P/N)*e",
            {"k": k, "P": largest, "N": setup.shard_gradients, "e": e},
            "gradients",
            phases=BACKWARD,
        )
    ]


def mlp_gradients(step: Step, kind: Kind) -> list[Entry]:
    """The feed-forward part's moment alone, where the attention's scores are made again later."""
    amount, symbols = _stream(step, kind)
    wide, formula = _product(step, kind, symbols)
    return [_layer_gradients(amount + wide, f"ceil({STREAM} + {formula})", symbols)]


def score_gradients(step: Step, kind: Kind) -> list[Entry]:
    """The softmax's moment alone; what the feed-forward part had kept is gone."""
    amount, symbols = _stream(step, kind)
    wide = max(0, _scores(step, kind, symbols)) if kind.form.score_gradients else 0
    formula = f"ceil(t*k*h*r + max(0, {SCORES}))" if kind.form.score_gradients else "t*k*h*r"
    return [_layer_gradients(amount + wide, formula, symbols)]


def _stream(step: Step, kind: Kind, *, counted: int = 0) -> tuple[float, dict[str, int | float]]:
    """The gradient; of a checkpointed layer also its input, and its output where that is made again."""
    setup = step.setup
    counted = max(counted, int(reads_stored(step)))
    again = 1 - counted + int(setup.recomputes_output) if setup.checkpointed else 0
    t, streams = setup.batch * kind.sequence, 1 + again
    h, r = step.residual_width, setup.residual_bytes
    return t * streams * h * r, {"t": t, "k": streams, "h": h, "r": r}


def _product(step: Step, kind: Kind, symbols: dict[str, int | float]) -> tuple[float, str]:
    c = composed_tensors(step) or inner_tensors(step.setup, gated=kind.layer.mlp.gated)
    if kind.layer.mlp.gated and c > 1:
        c = exact(c - read_by_adapter(step.setup, kind))
    i, e = exact(inner_width(step, kind)), step.setup.product_bytes
    symbols |= {"c": c, "i": i, "e": e}
    if kind.form.piece:
        f, d = step.setup.chunks, exact(per_token(kind.form.piece, kind.form.widths))
        symbols |= {"f": f, "d": d}
        return symbols["t"] * (c * i * e + d) / f, "t*(c*i*e + d)/f"
    return c * symbols["t"] * i * e, "c*t*i*e"


def softmax_again(step: Step, kind: Kind, *, counted: int = 0) -> list[Entry]:
    """sdpa's composed form as a layer computed again comes to its softmax: scores, and what the softmax takes itself.

    Nothing that follows is there yet; variables hold queries as they were before they were scaled, keys and values as
    they were before they were repeated, the mask, and the norm's output that dropout keeps for none.
    `aten::_safe_softmax` makes the plain softmax and a mask beside its result.
    """
    setup, form, b, s = step.setup, kind.form, step.setup.batch, kind.sequence
    composed = setup.training.attention == "sdpa" and form.score_bytes
    if not composed or not setup.checkpointed or setup.runtime not in RUNS_TRANSFORMERS:
        return []
    scores = b * form.heads * s**2
    amount, symbols = _stream(step, kind, counted=counted)
    waits = 0 if setup.training.checkpoint_reentrant or not adapts_down(setup, kind) else setup.train_bytes
    e, h = setup.product_bytes, step.residual_width
    held: Terms = {"q": 3 * e, "k": 2 * e}
    waits += setup.residual_bytes * bool(setup.adapter and setup.adapter.dropout)
    later = per_token(add(form.behind, form.ends, scaled(held, -1)), form.widths) - waits * h
    symbols |= {"e": e, "b": b, "n": form.heads, "s": s, "y": exact(later)}
    own = {"c": e + 1, "b": b, "n": form.heads, "s": s}
    return [
        _layer_gradients(
            amount + e * scores + (e + 1) * s * s - symbols["t"] * later,
            f"{STREAM} + e*b*n*s*s + (e + 1)*s*s - t*y",
            symbols,
        ),
        item(
            Category.CONTEXT,
            "softmax_temporaries",
            (e + 1) * scores,
            "c*b*n*s*s",
            own,
            "attention_scores",
            phases=BACKWARD,
        ),
    ]


def scores_held(step: Step, kind: Kind, *, counted: int = 0) -> list[Entry]:
    """An attention computed again whose variables hold the scores and their masked form, at its output projection.

    BLOOM's class (`BloomAttention.forward`). Around it: its base's output, its adapter's and its scaled form, the
    widened input, the norm's output, and what waits above.
    """
    setup, form, s = step.setup, kind.form, kind.sequence
    if step.model.model_type not in HOLDS_SCORES or not form.score_bytes or not setup.checkpointed:
        return []
    scores, e, h = setup.batch * form.heads * s**2, setup.compute_bytes, step.residual_width
    amount, symbols = _stream(step, kind, counted=counted)
    around = (4 if setup.autocast else e) + (3 * e + 4 + e if setup.adapter is not None else e)
    terms = {x: c for x, c in form.behind.items() if x not in {"o", "v"}}
    later = per_token(terms, form.widths) - around * h
    symbols |= {"e": e, "b": setup.batch, "n": form.heads, "s": s, "y": exact(later)}
    amount += 2 * e * scores - symbols["t"] * later
    return [_layer_gradients(amount, f"{STREAM} + 2*e*b*n*s*s - t*y", symbols)]


@once_a_layer
def at_scores(step: Step, kind: Kind) -> bool:
    """Whether a layer's backward pass is fullest at the softmax."""
    if not kind.form.score_gradients:
        return False
    symbols: dict[str, int | float] = {"t": step.setup.batch * kind.sequence}
    return _scores(step, kind, symbols) > _product(step, kind, symbols)[0]


def _scores(step: Step, kind: Kind, symbols: dict[str, int | float]) -> float:
    form, b, s = kind.form, step.setup.batch, kind.sequence
    kept = exact(per_token(form.behind, form.widths))
    symbols |= {"g": form.score_gradients, "b": b, "n": form.heads, "s": s, "y": kept}
    return form.score_gradients * b * form.heads * s**2 - symbols["t"] * kept


def _layer_gradients(amount: float, formula: str, symbols: dict[str, int | float]) -> Entry:
    return item(
        Category.ACTIVATIONS,
        "layer_gradients",
        whole(amount),
        formula,
        symbols,
        "backward_inside_layer",
        phases=BACKWARD,
    )
