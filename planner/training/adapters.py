"""Adapters and packed matrices at work in a layer's feed-forward part: what is there beyond what the layer keeps.

At the down projection, at the up projection, and with a packed matrix unpacked; in the forward pass and where a layer
is computed again.
"""

from typing import Final

from planner.memory.adapters import layer_sites
from planner.memory.terms import exact
from planner.model.spec import MlpKind, Part, Split
from planner.training.saved import checkpoint_interval, keeps_stream
from planner.training.setup import Setup
from planner.training.step import Kind, Step

NAMES_PARTS: Final = frozenset({"stablelm"})
"""Model types whose layers name the first norm's output and the attention's, and so hold them to the end."""


def inner_width(step: Step, kind: Kind) -> float:
    """Feed-forward elements per token that are in work at once; experts run one after the other before version 5."""
    form, mlp = kind.form, kind.layer.mlp
    if mlp.kind is not MlpKind.MOE:
        return form.widths["i"]
    grouped = step.setup.megatron or not step.setup.version or step.setup.version >= (5,)
    routed = form.widths["xi"] / (1 if grouped else mlp.num_experts)
    return max(routed, form.widths["si"])


def adapts_down(setup: Setup, kind: Kind) -> bool:
    """Whether the matrix that ends the feed-forward part has an adapter."""
    return setup.adapter is not None and any(
        x.part is Part.MLP and x.split is Split.ROW for x in layer_sites(kind.layer, setup.adapter)
    )


def read_by_adapter(setup: Setup, kind: Kind) -> float:
    """What an adapter on the down projection keeps of the product, in tensors of products; its gradient frees it.

    The product itself, a cast of it, or dropout's output with the mask.
    """
    if setup.adapter is None or not adapts_down(setup, kind):
        return 0
    read = setup.compute_bytes if setup.autocast else setup.train_bytes
    return (read + bool(setup.adapter.dropout)) / setup.product_bytes


def at_work(step: Step, kind: Kind) -> list[tuple[float, str, dict[str, int | float]]]:
    """Adapters at work in a layer's forward pass: at the down projection, at the up projection."""
    found = (transient(step, kind), at_up_projection(step, kind, forward=True))
    return [one for one in found if one is not None]


def transient(step: Step, kind: Kind) -> tuple[float, str, dict[str, int | float]] | None:
    """What an adapter on the down projection has in work: bytes, formula, symbols; None without one.

    The product it reads, its cast to the adapter's format and dropout's output where neither is kept, and the three
    outputs that are added up; the layer's own output, which counts with the stream where it is made again, is not yet.
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
    if setup.checkpointed and setup.recomputes_output:
        out -= setup.residual_bytes
    elif setup.checkpointed and setup.autocast and drops and not setup.quantized_base:
        wide_norm = step.model.norm == "layer_norm"
        out = max(
            out,
            2 * setup.compute_bytes + (4 if wide_norm else setup.residual_bytes) + held_around(step),
        )
    t, i, h = setup.batch * kind.sequence, exact(kind.form.widths["i"]), step.residual_width
    symbols = {"t": t, "p": p + wide, "i": i, "o": out, "h": h}
    return t * ((p + wide) * i + out * h), "t*(p*i + o*h)", symbols


def unpacked(step: Step, kind: Kind) -> list[tuple[float, str, dict[str, int | float]]]:
    """A packed down projection at work, with its matrix unpacked: bytes, formula, symbols.

    In the backward pass the product's gradient comes, beside the adapter's, which has freed what it read. Where the
    layer is computed again, the product is there before the adapter has read it (autocast's own cast of it too), with
    the output and what waits around it.
    """
    setup = step.setup
    if not setup.quantized_base or setup.adapter is None:
        return []
    t, i, h = setup.batch * kind.sequence, exact(inner_width(step, kind)), step.residual_width
    e, m, x = setup.product_bytes, setup.compute_bytes, int(kind.form.widths["h"])
    adapted = adapts_down(setup, kind)
    read = exact(read_by_adapter(setup, kind) * e)
    v = 2 * e - read if adapted else e
    named: dict[str, int | float] = {"t": t, "i": i, "v": v, "m": m, "x": x}
    found = [(t * i * v + i * x * m, "t*i*v + i*x*m", named)]
    if setup.checkpointed and kind.layer.mlp.gated and adapted:
        a = exact(e - read + (m if setup.autocast else 0))
        waits = 0 if setup.training.checkpoint_reentrant else m if setup.autocast else setup.train_bytes
        b = waits + m + setup.residual_bytes + held_around(step)
        named = named | {"a": a, "h": h, "j": b}
        found.append((t * (i * a + h * b) + i * x * m, "t*(i*a + h*j) + i*x*m", named))
    return found


def held_around(step: Step) -> int:
    """Bytes per element of the stream that a layer's own variables hold while its feed-forward part runs.

    The stream between the parts, where the norm keeps a copy of it; StableLM's class names the first norm's output and
    the attention's. Of layers that are computed again together, the input of the one that runs.
    """
    setup, between = step.setup, step.setup.residual_bytes
    copied = 0 if keeps_stream(step) else between
    held = 2 * between if step.model.model_type in NAMES_PARTS else copied
    return held + (copied if checkpoint_interval(setup) > 1 else 0)


def at_up_projection(
    step: Step, kind: Kind, *, forward: bool = False
) -> tuple[float, str, dict[str, int | float]] | None:
    """A gated part at its up projection's adapter, beyond what the whole layer keeps; None without one.

    In the forward pass, or where it is computed again.

    A checkpoint that is not reentrant runs when the down projection asks for what it kept: gradients of its adapter's
    outputs are there. Then come the up projection's product, the adapter's and its scaled form, beside the gate's input
    and output of the activation (not yet where one matrix makes both), and the input that an adapter of another format
    keeps only a cast of, which dropout does not keep either.
    """
    setup, adapter, form = step.setup, step.setup.adapter, kind.form
    if adapter is None or setup.autocast:
        return None
    if not kind.layer.mlp.gated or kind.layer.mlp.kind is MlpKind.MOE:
        return None
    sites = [x for x in layer_sites(kind.layer, adapter) if x.part is Part.MLP]
    p, d, drops = setup.product_bytes, setup.train_bytes, bool(adapter.dropout)
    if len(sites) < len([x for x in kind.layer.linears if x.part is Part.MLP]) or d == p:
        return None
    t, i, h = setup.batch * kind.sequence, exact(form.widths["i"]), step.residual_width
    waits = 0 if setup.training.checkpoint_reentrant or forward else d + (0 if setup.quantized_base else p)
    one = any(x.split is not Split.ROW and x.out_features >= 2 * i for x in sites)
    made = 2 * p + 4 * d if one else 3 * p + 2 * d
    gone = form.terms.get("i", 0) + form.adapter_masks.get("i", 0)
    u, w = exact(made - gone), waits + setup.residual_bytes + d * drops + held_around(step)
    return t * (u * i + w * h), "t*(u*i + w*h)", {"u": u, "i": i, "w": w, "h": h}
