"""What the final norm and the head keep for the backward pass, and the casts of the output matrix."""

from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory import logits as loss
from planner.memory.adapters import HEAD_NAMES, head_is_target
from planner.memory.layer_norms import norm_terms
from planner.memory.terms import item, summed
from planner.training.saved import casts_weights
from planner.training.setup import Setup
from planner.training.step import Step

WHOLE_LOGITS_NEVER: Final = frozenset({"fused_linear"})


def saved_head_entries(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """What the final norm and the head keep: the norm's tensors, the head's input if trained, its cast.

    Pieces along the sequence of several rows do not lie in one piece: a chunked loss's head copies each.
    """
    setup, entries = step.setup, [final_norm_entry(step, phases)]
    if setup.training.loss in WHOLE_LOGITS_NEVER:
        return entries
    if trains_head(step):
        entries.append(head_input(step, phases, setup.compute_bytes))
        if setup.training.loss == "chunked" and setup.runtime != "litgpt" and setup.batch > 1:
            entries.append(head_input(step, phases, setup.compute_bytes))
    if casts_head(setup):
        entries.append(head_cast(step, phases))
    elif casts_frozen_head(step):
        entries.append(head_cast(step, phases, loss.CHUNKS if setup.training.loss == "chunked" else 1))
    return entries


def casts_head(setup: Setup) -> bool:
    """Whether autocast keeps a copy of the trained output matrix."""
    return casts_weights(setup) and setup.adapter is None


def casts_frozen_head(step: Step) -> bool:
    """Whether the head is frozen and wider than products: its cast is kept for the gradient of its input.

    Autocast caches casts of trained weights alone (`cached_cast` asks for `requires_grad`), so that each product with a
    frozen one has its own, as a base prepared for k-bit training has with its fp32 head.
    """
    setup = step.setup
    wide = setup.autocast and setup.param_bytes > setup.compute_bytes
    return wide and setup.adapter is not None and setup.runtime != "litgpt" and not trains_head(step)


def trains_head(step: Step) -> bool:
    """Whether the output matrix, or an adapter on it, gets a gradient, so that its input is kept."""
    adapter, head = step.setup.adapter, step.model.head
    if adapter is None or head is None:
        return head is not None
    return bool(frozenset(adapter.modules_to_save) & (HEAD_NAMES | {head.name})) or head_is_target(
        step.model, adapter
    )


def final_norm_entry(step: Step, phases: frozenset[Phase]) -> Entry:
    """What the last norm keeps, its output left out."""
    width = "r" if step.cuts_sequence else "h"
    terms, tokens = norm_terms(step.model, step.setup, width), step.setup.target_tokens
    widths = {"h": step.model.hidden_size, "r": step.residual_width}
    kept = summed(terms, widths)
    return item(
        Category.ACTIVATIONS,
        "final_norm",
        tokens * kept.bytes,
        f"t*({kept.text})",
        {"t": tokens, **kept.symbols},
        "activations_eager",
        phases=phases,
    )


def head_input(step: Step, phases: frozenset[Phase], e: int) -> Entry:
    """What the head reads, whole in width, at `e` bytes an element."""
    t, h = step.setup.target_tokens, step.model.hidden_size
    return item(
        Category.ACTIVATIONS,
        "head_input",
        t * h * e,
        "t*h*e",
        {"t": t, "h": h, "e": e},
        "activations_eager",
        phases=phases,
    )


def held_head_input(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """The final norm's output, held by the model's own variable until it returns; the head may keep the same tensor.

    Where ranks cut the sequence, the head keeps what it gathered.
    """
    setup = step.setup
    kept = setup.compute_bytes if trains_head(step) else 0
    norm = final_norm_bytes(step)
    if step.cuts_sequence:
        t, h = setup.target_tokens, step.residual_width
        symbols, reference = {"t": t, "h": h, "e": norm}, "activations_eager"
        return [
            item(Category.ACTIVATIONS, "head_input", t * h * norm, "t*h*e", symbols, reference, phases=phases)
        ]
    return [] if kept == norm else [head_input(step, phases, norm)]


def final_norm_bytes(step: Step) -> int:
    """Bytes of an element that the final norm puts out; autocast runs layer norms in fp32."""
    setup = step.setup
    return 4 if step.model.norm == "layer_norm" and setup.autocast else setup.residual_bytes


def head_cast(step: Step, phases: frozenset[Phase], copies: int = 1) -> Entry:
    """Autocast's casts of this device's rows of the output matrix."""
    h, e = step.model.hidden_size, step.setup.compute_bytes
    return item(
        Category.WEIGHTS,
        "autocast_head",
        copies * step.vocab * h * e,
        "k*V*h*e",
        {"k": copies, "V": step.vocab, "h": h, "e": e},
        "autocast_cache",
        phases=phases,
    )
