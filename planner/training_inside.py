"""Inside a layer's backward pass: what is there beyond what the layer had kept, at its fullest."""

from collections.abc import Sequence

from planner.ledger import Category, Entry
from planner.memory.activations import COMPOSED_GELU
from planner.memory.adapters import layer_sites
from planner.memory.inventory import Tensor
from planner.memory.layer_forms import COMPOSES_GELU
from planner.memory.terms import item, whole
from planner.model.spec import MlpKind, Part, Split
from planner.training_setup import Setup, fused_kernels
from planner.training_states import step_tensors
from planner.training_step import BACKWARD, Kind, Step, exact
from planner.units import ceil_div

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


def composed_tensors(step: Step) -> float:
    """The same of a GELU put together from single steps, in tensors of products; 0 for any other activation.

    Both factors' gradients and the product's; under autocast these three are fp32, beside a 16-bit one.
    Packed matrices hand over fp32, which makes all of them alike, and one of the factors goes with its gradient.
    """
    setup = step.setup
    if setup.runtime not in COMPOSES_GELU or step.model.hidden_act not in COMPOSED_GELU or setup.compiled:
        return 0
    if any(kind.layer.mlp.gated for kind in step.kinds):
        return 0
    if setup.product_bytes > setup.compute_bytes:
        return 2
    alive = (3 * 4 + setup.compute_bytes) / setup.compute_bytes if setup.autocast else 3
    if setup.adapter is None:
        return exact(alive - 1)
    adapted = any(_adapts_down(setup, kind) for kind in step.kinds)
    read = setup.compute_bytes if setup.autocast else setup.train_bytes
    gone = (read + 1) / setup.product_bytes if adapted and setup.adapter.dropout else 0
    return exact(alive - gone)


def _adapts_down(setup: Setup, kind: Kind) -> bool:
    return setup.adapter is not None and any(
        x.part is Part.MLP and x.split is Split.ROW for x in layer_sites(kind.layer, setup.adapter)
    )


def shares_product(setup: Setup, kind: Kind) -> bool:
    """Whether an adapter on the down projection keeps the very product it reads."""
    plain = not setup.autocast and not setup.quantized_base and setup.train_bytes == setup.product_bytes
    return plain and _adapts_down(setup, kind) and setup.adapter is not None and not setup.adapter.dropout


def transient(step: Step, kind: Kind) -> tuple[float, str, dict[str, int | float]] | None:
    """What an adapter on the down projection has in work: bytes, formula, symbols; None without one.

    The product it reads, its cast to the adapter's format and dropout's output where neither is kept, and the three
    outputs that are added up.
    """
    setup, adapter = step.setup, step.setup.adapter
    if adapter is None or not any(
        x.part is Part.MLP and x.split is Split.ROW for x in layer_sites(kind.layer, adapter)
    ):
        return None
    p, d, drops = setup.product_bytes, setup.train_bytes, bool(adapter.dropout)
    if setup.autocast:
        wide = 0 if setup.quantized_base or d == p else d
        wide, out = wide + (wide or p) * drops, 3 * setup.compute_bytes
    else:
        wide, out = d * drops if d != p else 0, setup.compute_bytes + 2 * d
    t, i, h = setup.batch * kind.sequence, exact(kind.form.widths["i"]), step.residual_width
    symbols = {"t": t, "p": p + wide, "i": i, "o": out, "h": h}
    return t * ((p + wide) * i + out * h), "t*(p*i + o*h)", symbols


def at_up_projection(step: Step, kind: Kind) -> tuple[float, str, dict[str, int | float]] | None:
    """A gated part computed again, at its up projection's adapter, beyond what the whole layer keeps; None without one.

    A checkpoint that is not reentrant runs when the down projection asks for what it kept: gradients of its adapter's
    outputs are there. Then come the up projection's product, the adapter's and its scaled form, beside the gate's input
    and output of the activation, and the input that an adapter of another format keeps only a cast of.
    """
    setup, adapter, form = step.setup, step.setup.adapter, kind.form
    if adapter is None or setup.autocast or setup.quantized_base:
        return None
    if not kind.layer.mlp.gated or kind.layer.mlp.kind is MlpKind.MOE:
        return None
    sites = [x for x in layer_sites(kind.layer, adapter) if x.part is Part.MLP]
    p, d = setup.product_bytes, setup.train_bytes
    if len(sites) < len([x for x in kind.layer.linears if x.part is Part.MLP]) or d == p or adapter.dropout:
        return None
    t, i, h = setup.batch * kind.sequence, exact(form.widths["i"]), step.residual_width
    waits = 0 if setup.training.checkpoint_reentrant else d + 2 * p
    u, y = exact(3 * p + 2 * d - form.terms.get("i", 0)), waits + setup.residual_bytes
    return t * (u * i + y * h), "t*(u*i + y*h)", {"u": u, "i": i, "y": y, "h": h}


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
    if step.setup.checkpointed and (found := transient(step, kind)) is not None:
        wide, others, more = max(wide, found[0]), [*others, "t*(p*i + o*h)"], found[2]
        symbols |= {name: more[name] for name in ("p", "o")} | {"i": more["i"]}
    if step.setup.checkpointed and (again := at_up_projection(step, kind)) is not None:
        wide, others = max(wide, again[0]), [*others, again[1]]
        symbols |= again[2]
    if step.setup.quantized_base:
        i, e, width = symbols["i"], symbols["e"], int(kind.form.widths["h"])
        wide = max(wide, (symbols["c"] - 2) * symbols["t"] * i * e + i * width * e)
        others, symbols["w"] = [*others, "(c - 2)*t*i*e + i*w*e"], width
    if others:
        return [
            _layer_gradients(amount + wide, f"ceil(t*k*h*r + max({formula}, {', '.join(others)}))", symbols)
        ]
    return [_layer_gradients(amount + wide, "ceil(t*(k*h*r + c*i*e))", symbols)]


def stepped_gradient(step: Step, kind: Kind) -> list[Entry]:
    """A layer's largest parameter when its gradient has come and is stepped at once (`in_backward`), with the stream's.

    The optimizer's hook runs as soon as the gradient is accumulated
    (`Tensor.register_post_accumulate_grad_hook`), and has its temporary beside it.
    """
    if not step.setup.optimizer.in_backward:
        return []
    inside = [t for t in step.trained if t.place in {"layers", "experts", "adapter"}]
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
    c = composed_tensors(step) or inner_tensors(step.setup, gated=kind.layer.mlp.gated)
    if kind.layer.mlp.gated and c > 1 and shares_product(step.setup, kind):
        c -= 1
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
