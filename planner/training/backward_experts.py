"""A layer's stacked experts in the backward pass: the moment at which their gradient comes."""

from planner.ledger import Category, Entry, Phase
from planner.memory.layer_view import groups_experts
from planner.memory.terms import item
from planner.model.spec import MlpKind, Part, Split
from planner.training.backward_gradients import gradients_above, gradients_so_far
from planner.training.gather import gathered_entries, unit_gradient_entries
from planner.training.gradients import gradient_phases
from planner.training.inside_layer import at_experts, expert_gradients, stepped_entries
from planner.training.kept_outputs import kept_cache
from planner.training.saved import (
    checkpoint_interval,
    held_layers,
    layer_entries,
    reads_stored,
    stored_inputs,
)
from planner.training.step import BACKWARD, Kind, Step
from planner.training.titan import NAME, combines_by_product
from planner.units import ceil_div


def at_stacked_experts(
    step: Step, around: list[Entry], others: list[Entry], once: list[Entry]
) -> list[list[Entry]]:
    """The gradient of a layer's stacked experts as it comes, in the last layer that has any and in the first.

    Gradients of layers below are not there, unless they are from the micro-batch before.
    """
    setup, layers = step.setup, (*step.share.encoder_layers, *step.share.layers)
    routed = [n for n, layer in enumerate(layers) if layer.mlp.kind is MlpKind.MOE]
    kind = next((kind for kind in step.kinds if kind.layer.mlp.kind is MlpKind.MOE), None)
    if kind is None or not routed or setup.adapter is not None or not groups_experts(setup):
        return []
    if setup.megatron or setup.training.activation_offload:
        return []
    experts = sum(x.params for x in kind.layer.linears if x.part is Part.EXPERTS)
    below = sum(layer.params for layer in layers[: routed[0]])
    above = step.trained_params - step.trained_at["embedding"] - below - kind.layer.params
    kept = layer_entries(step, at_experts(step, kind), 1, BACKWARD, "recomputed_layer")
    fresh, inside = _fresh_experts(step, kind), expert_gradients(step, kind)
    counted = expert_gradients(step, kind, counted=1)
    stored = stored_inputs(step, BACKWARD, 1, but=step.num_layers - routed[0])
    interval = checkpoint_interval(setup)
    together = interval - 1
    if setup.checkpointed and step.num_layers % interval:
        around = held_layers(step, BACKWARD, but=1 + int(reads_stored(step)))
    if not setup.checkpointed:
        parts = [kind.without_one() if one is kind else one for one in step.kinds]
        around = [
            entry
            for one in parts
            for entry in layer_entries(
                step, one, one.count * step.share.in_flight, BACKWARD, "saved_activations"
            )
        ]
    group = layer_entries(step, kind, together, BACKWARD, "recomputed_layer") if together else []
    last = [*around, *once, *group, *kept, *gradients_above(step, experts)]
    held = [stored] if setup.checkpointed and checkpoint_interval(setup) == 1 and routed[0] else []
    cache = kept_cache(step, BACKWARD, but_first=True)
    first = [*others, *once, *cache, *kept, *held, *gradients_so_far(step, max(0, above + experts))]
    around_units = [*gathered_entries(step, 1, BACKWARD), *unit_gradient_entries(step, BACKWARD)]
    return [[*last, *fresh, *counted, *around_units], [*first, *fresh, *inside, *around_units]]


def _fresh_experts(step: Step, kind: Kind) -> list[Entry]:
    """The stacked up projections' gradient, where all are there from the micro-batch before, or as it is stepped."""
    setup = step.setup
    if setup.optimizer.in_backward:
        return stepped_entries(setup, [t for t in step.trained if t.place == "experts"])
    if setup.training.gradient_accumulation < 2 or Phase.BACKWARD not in gradient_phases(setup):
        return []
    ups = sum(x.params for x in kind.layer.linears if x.part is Part.EXPERTS and x.split is not Split.ROW)
    params, e = ceil_div(ups, step.setup.division.expert), setup.train_bytes
    symbols = {"P": params, "e": e}
    return [
        item(Category.GRADIENTS, "gradients", params * e, "P*e", symbols, "gradients", phases=BACKWARD)
    ]  # fmt: skip


def combining(step: Step, kind: Kind) -> list[list[Entry]]:
    """torchtitan's weighting of the experts' outputs in the backward pass, before anything of the experts has come.

    Beside the outputs in fp32, which the layer keeps, three tensors like them: the gradient, what of it goes on, and
    the product whose sum is the weights' gradient. Exchange buffers, which count by themselves, are made later.
    """
    setup = step.setup
    if setup.runtime != NAME or kind.layer.mlp.kind is not MlpKind.MOE:
        return []
    t, h, r = setup.batch * kind.sequence, step.residual_width, setup.residual_bytes
    tensors = 1 if combines_by_product(setup.runtime, setup.version) else 3
    exchanged = 2 * setup.compute_bytes if setup.parallel.expert > 1 else 0
    c, x = max(0, tensors * 4 - exchanged), int(kind.form.widths["xh"])
    symbols = {"t": t, "h": h, "r": r, "c": c, "x": x}
    return [[
        item(
            Category.ACTIVATIONS, "layer_gradients", t * (h * r + c * x), "t*(h*r + c*x)", symbols,
            "backward_inside_layer", phases=BACKWARD,
        )
    ]]  # fmt: skip
