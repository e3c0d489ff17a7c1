"""Inside a layer's backward pass: what is there beyond what the layer had kept, at its fullest."""

from planner.ledger import Category, Entry
from planner.memory.terms import item, whole
from planner.model.spec import MlpKind
from planner.training_setup import Setup, fused_kernels
from planner.training_step import BACKWARD, Kind, Step, exact

SCORES = "g*b*n*s*s - t*i*f"


def inner_width(step: Step, kind: Kind) -> float:
    """Feed-forward elements per token that are in work at once; experts run one after the other before version 5."""
    form, mlp = kind.form, kind.layer.mlp
    if mlp.kind is not MlpKind.MOE:
        return form.widths["i"]
    grouped = step.setup.megatron or not step.setup.version or step.setup.version >= (5,)
    routed = form.widths["xi"] / (1 if grouped else mlp.num_experts)
    return max(routed, form.widths["si"])


def inner_tensors(setup: Setup, *, gated: bool) -> int:
    """Gradients inside a feed-forward part that are alive beyond what their arrival frees.

    A gated part has the product's, the activation's and the up projection's at once; the product itself goes when its
    gradient comes, if it was kept at all (it is not, for a frozen projection without an adapter).
    """
    kept = setup.adapter is None
    if "swiglu" in fused_kernels(setup):
        return 0 if kept else 1
    return (3 if gated else 2) - (1 if kept else 0)


def layer_gradients(step: Step, kind: Kind, *, counted: int = 0) -> list[Entry]:
    """Inside a layer: the stream's gradient, what checkpointing adds, and the feed-forward part's own gradients.

    Args:
        step: The step.
        kind: The layer.
        counted: Tensors as wide as the stream that count elsewhere: its input among the stored ones, its output's
            gradient among retained ones.
    """
    amount, symbols = _stream(step, kind, counted=counted)
    wide, formula = _product(step, kind, symbols)
    others = []
    if kind.form.score_gradients:
        wide, others = max(wide, _scores(step, kind, symbols)), [SCORES]
    if step.setup.quantized_base:
        i, e, width = symbols["i"], symbols["e"], int(kind.form.widths["h"])
        wide = max(wide, (symbols["c"] - 2) * symbols["t"] * i * e + i * width * e)
        others, symbols["w"] = [*others, "(c - 2)*t*i*e + i*w*e"], width
    if others:
        return [
            _layer_gradients(amount + wide, f"ceil(t*k*h*r + max({formula}, {', '.join(others)}))", symbols)
        ]
    return [_layer_gradients(amount + wide, "ceil(t*(k*h*r + c*i*e))", symbols)]


def mlp_gradients(step: Step, kind: Kind) -> list[Entry]:
    """The feed-forward part's moment alone, where the attention's scores are made again later."""
    amount, symbols = _stream(step, kind)
    wide, _ = _product(step, kind, symbols)
    return [_layer_gradients(amount + wide, "ceil(t*(k*h*r + c*i*e))", symbols)]


def score_gradients(step: Step, kind: Kind) -> list[Entry]:
    """The softmax's moment alone; what the feed-forward part had kept is gone."""
    amount, symbols = _stream(step, kind)
    wide = max(0, _scores(step, kind, symbols)) if kind.form.score_gradients else 0
    formula = f"ceil(t*k*h*r + max(0, {SCORES}))" if kind.form.score_gradients else "t*k*h*r"
    return [_layer_gradients(amount + wide, formula, symbols)]


def _stream(step: Step, kind: Kind, *, counted: int = 0) -> tuple[float, dict[str, int | float]]:
    """The gradient; of a checkpointed layer also its input, and its output where that is made again."""
    setup = step.setup
    again = 1 - counted + int(setup.recomputes_output) if setup.checkpointed else 0
    t, streams = setup.batch * kind.sequence, 1 + again
    h, r = step.residual_width, setup.residual_bytes
    return t * streams * h * r, {"t": t, "k": streams, "h": h, "r": r}


def _product(step: Step, kind: Kind, symbols: dict[str, int | float]) -> tuple[float, str]:
    c = inner_tensors(step.setup, gated=kind.layer.mlp.gated)
    i, e = exact(inner_width(step, kind)), step.setup.product_bytes
    symbols |= {"c": c, "i": i, "e": e}
    return c * symbols["t"] * i * e, "c*t*i*e"


def _scores(step: Step, kind: Kind, symbols: dict[str, int | float]) -> float:
    form, b, s = kind.form, step.setup.batch, kind.sequence
    kept = sum(coefficient for x, coefficient in form.terms.items() if x in {"i", "xi", "si"})
    i = exact(inner_width(step, kind))
    symbols |= {"g": form.score_gradients, "b": b, "n": form.heads, "s": s, "i": i, "f": kept}
    return form.score_gradients * b * form.heads * s**2 - symbols["t"] * i * kept


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
