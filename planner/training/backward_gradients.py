"""Gradients in the backward pass: those that have come so far, the output matrix's, the residual stream's."""

from planner.ledger import Category, Entry, Phase
from planner.memory.litgpt import longest_first
from planner.memory.terms import item
from planner.model.spec import MlpKind
from planner.training.arrived import arrived
from planner.training.fsdp1_flat import growing_gradients, is_flat
from planner.training.gradients import gradient_phases, keeps_whole_gradients
from planner.training.head import WHOLE_LOGITS_NEVER
from planner.training.inside_layer import at_scores
from planner.training.optimizer_step import reduces_flat
from planner.training.setup import Setup
from planner.training.step import BACKWARD, Kind, Step
from planner.training.zero import parts_gradients, reduced_so_far
from planner.units import ceil_div


def gradients_above(step: Step, more: int = 0) -> list[Entry]:
    """Gradients that are there when the backward pass comes to the last layer, and `more` elements of its own."""
    setup, above = step.setup, step.trained_at["head"] + more
    fresh = (
        fresh_gradient(step, step.largest) if more and step.largest.layer.mlp.kind is not MlpKind.MOE else []
    )
    tied = step.model.tie_word_embeddings and step.share.holds_head
    if not tied:
        return [*gradients_so_far(step, above), *fresh]
    if setup.training.loss in WHOLE_LOGITS_NEVER and setup.adapter is None and setup.shard_gradients == 1:
        return [*gradients_so_far(step, above), *fresh, *head_gradient(step, setup.train_bytes)]
    matrix = min(step.vocab * step.model.hidden_size, step.trained_at["embedding"])
    return [*gradients_so_far(step, above + matrix), *fresh]


def fresh_gradient(step: Step, kind: Kind) -> list[Entry]:
    """A gradient that has just come, where all are there from the micro-batch before: it is added, then gone."""
    return come_now(step, 0 if at_scores(step, kind) else arrived(step, kind))


def come_now(step: Step, params: int) -> list[Entry]:
    """So many elements' gradients that have just come, where they are then added to earlier ones."""
    setup = step.setup
    added = setup.training.gradient_accumulation > 1 and Phase.BACKWARD in gradient_phases(setup)
    if not added or _own_buffers(setup) or setup.adapter is not None or setup.optimizer.in_backward:
        return []
    if parts_gradients(setup):
        return []
    e = setup.train_bytes
    symbols = {"P": params, "e": e}
    return [
        item(Category.GRADIENTS, "gradients", params * e, "P*e", symbols, "gradients", phases=BACKWARD)
    ]  # fmt: skip


def _own_buffers(setup: Setup) -> bool:
    """Whether kernels add to Megatron's main gradients themselves."""
    return setup.megatron and not reduces_flat(setup)


def stream_gradient(
    step: Step, times: int, name: str, reference: str = "activations_eager", e: int | None = None
) -> list[Entry]:
    """Gradients of the residual stream, `times` of them; whole at its ends where ranks cut the sequence."""
    setup, h = step.setup, step.model.hidden_size if step.cuts_sequence else step.residual_width
    e = setup.residual_bytes if e is None else e
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


def gradients_so_far(step: Step, params: int) -> list[Entry]:
    """Gradients that have come so far."""
    setup = step.setup
    if is_flat(setup) and longest_first(setup):
        return growing_gradients(step, params)
    if parts_gradients(setup):
        return reduced_so_far(setup, params, step.trained_params)
    counted = Phase.BACKWARD in gradient_phases(setup) or keeps_whole_gradients(setup)
    if counted or setup.parallel.offload.gradients != "none":
        return []
    if setup.optimizer.in_backward:
        return []
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


def head_gradient(step: Step, e: int) -> list[Entry]:
    """The output matrix's gradient, whole; autocast makes it in 16 bit and then casts it."""
    setup = step.setup
    if setup.adapter is not None or setup.megatron:
        return []
    v, h, made = step.vocab, step.model.hidden_size, setup.training.loss in WHOLE_LOGITS_NEVER
    return [
        item(
            Category.LOGITS if made else Category.GRADIENTS,
            "loss_head_gradient" if made else "gradients",
            v * h * e,
            "V*h*e",
            {"V": v, "h": h, "e": e},
            "head_backward",
            phases=BACKWARD,
        )
    ]
