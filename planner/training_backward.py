"""Ledger entries of the backward pass: its fullest moment.

At its start all activations are there and few gradients; at the first layer one layer's activations and almost all
gradients; at the embedding all gradients.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory.inventory import Tensor
from planner.memory.terms import item, whole
from planner.model.spec import MlpKind
from planner.training_gather import gathered_entries, unit_gradient_entries
from planner.training_setup import Setup
from planner.training_states import gradient_phases, total
from planner.training_step import (
    BACKWARD,
    Kind,
    Step,
    cast_entries,
    checkpoint_interval,
    exact,
    held_layers,
    layer_entries,
    stored_inputs,
)
from planner.units import ceil_div

FSDP1_RUNTIMES: Final = frozenset({"hf_trainer", "litgpt"})


def backward_entries(step: Step) -> list[Entry]:
    """The fullest of the three moments."""
    if not step.kinds:
        return []
    return _fullest((_at_last_layer(step), _at_first_layer(step), _at_embedding(step)))


def _fullest(moments: Iterable[list[Entry]]) -> list[Entry]:
    return max(moments, key=lambda entries: sum(entry.bytes for entry in entries))


def _at_last_layer(step: Step) -> list[Entry]:
    """Everything saved is there; the last layer is computed again where it was checkpointed."""
    held = held_layers(step, BACKWARD)
    if step.setup.checkpointed or step.setup.training.checkpointing in {
        "selective_op",
        "selective_attention",
    }:
        held += layer_entries(
            step, step.largest, checkpoint_interval(step.setup), BACKWARD, "recomputed_layer"
        )
    else:
        held += cast_entries(step, BACKWARD)
    above = [t for t in step.trained if t.place == "head"]
    if step.model.tie_word_embeddings and step.share.holds_head:
        above += [t for t in step.trained if t.place == "embedding"]
    return [
        *held,
        *layer_gradients(step, step.largest),
        *_gradients(step, total(above)),
        *gathered_entries(step, 2, BACKWARD),
        *unit_gradient_entries(step, BACKWARD),
    ]


def _at_first_layer(step: Step) -> list[Entry]:
    """One layer's tensors, and the gradients of all that lies above it."""
    first = step.first
    others = total(t for t in step.trained if t.place != "embedding")
    less = first.layer.params if step.setup.adapter is None else 0
    name = "recomputed_layer" if step.setup.checkpointed else "saved_activations"
    return [
        *held_layers(step, BACKWARD, step.share.in_flight - 1),
        *layer_entries(step, first, 1, BACKWARD, name),
        *_retained_by_fsdp(step),
        *layer_gradients(step, first),
        *_gradients(step, max(0, others - less)),
        *gathered_entries(step, 1, BACKWARD),
        *unit_gradient_entries(step, BACKWARD),
    ]


def _at_embedding(step: Step) -> list[Entry]:
    """All gradients, and the gradient of the stream."""
    return [
        *held_layers(step, BACKWARD, step.share.in_flight - 1),
        *_stream_gradient(step, 1, "stream_gradient"),
        *_gradients(step, total(step.trained)),
        *gathered_entries(step, 0, BACKWARD),
    ]


def _stream_gradient(step: Step, times: int, name: str, reference: str = "activations_eager") -> list[Entry]:
    setup, h, e = step.setup, step.residual_width, step.setup.residual_bytes
    return [
        item(
            Category.ACTIVATIONS,
            name,
            times * setup.tokens * h * e,
            "L*t*h*e",
            {"L": times, "t": setup.tokens, "h": h, "e": e},
            reference,
            phases=BACKWARD,
        )
    ]


def _retained_by_fsdp(step: Step) -> list[Entry]:
    """Under PyTorch's first FSDP a unit with frozen parameters holds its inputs, with their gradients, to the end.

    `_register_post_backward_reshard_only_hook` hooks the inputs of such a unit (`register_multi_grad_hook`) and drops
    the handle only when the whole backward pass is over; the inputs are the ones checkpointing detached, so both they
    and the gradients gathered on them stay. The first layer's own output gradient is the last one's.
    """
    setup = step.setup
    frozen = setup.adapter is not None and setup.parallel.sharding == "fsdp" and setup.shard_weights > 1
    if not frozen or not setup.checkpointed or setup.runtime not in FSDP1_RUNTIMES or step.num_layers < 2:
        return []
    inputs = stored_inputs(step, BACKWARD, 1)
    return [inputs, *_stream_gradient(step, step.num_layers - 2, "retained_gradients", "fsdp_retained")]


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
    if "swiglu" in (setup.training.kernels or ()):
        return 0 if kept else 1
    return (3 if gated else 2) - (1 if kept else 0)


def layer_gradients(step: Step, kind: Kind) -> list[Entry]:
    """Inside a layer: the stream's gradient, its output computed again, and the feed-forward part's own gradients."""
    setup = step.setup
    t, h, res, e = setup.batch * kind.sequence, step.residual_width, setup.residual_bytes, setup.compute_bytes
    streams = 2 if setup.checkpointed else 1
    c, i = inner_tensors(setup, gated=kind.layer.mlp.gated), exact(inner_width(step, kind))
    width = int(kind.form.widths["h"])
    wide, formula = c * t * i * e, "ceil(t*(k*h*r + c*i*e))"
    symbols: dict[str, int | float] = {"t": t, "k": streams, "h": h, "r": res, "c": c, "i": i, "e": e}
    if setup.quantized_base:
        wide, formula = (
            max(wide, (c - 2) * t * i * e + i * width * e),
            "ceil(t*k*h*r + max(c*t*i*e, (c - 2)*t*i*e + i*w*e))",
        )
        symbols["w"] = width
    return [
        item(
            Category.ACTIVATIONS,
            "layer_gradients",
            whole(t * streams * h * res + wide),
            formula,
            symbols,
            "backward_inside_layer",
            phases=BACKWARD,
        )
    ]


def _gradients(step: Step, params: int) -> list[Entry]:
    """Gradients that have come so far."""
    setup = step.setup
    if Phase.BACKWARD in gradient_phases(setup) or setup.parallel.offload.gradients != "none":
        return []
    if setup.optimizer.in_backward:
        params = min(params, _largest_tensor(step.trained))
    n, e = setup.shard_gradients, setup.gradient_bytes
    formula, symbols = (
        ("P*e", {"P": params, "e": e}) if n == 1 else ("ceil(P/N)*e", {"P": params, "N": n, "e": e})
    )
    return [
        item(
            Category.GRADIENTS,
            "gradients",
            ceil_div(params, n) * e,
            formula,
            symbols,
            "gradients",
            phases=BACKWARD,
        )
    ]


def _largest_tensor(tensors: Sequence[Tensor]) -> int:
    return max((t.rows * t.columns for t in tensors), default=0)
