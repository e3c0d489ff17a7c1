"""Liger's fused head and loss, which never makes whole logits."""

from typing import Final

from planner.ledger import Category, Entry
from planner.memory import logits as loss
from planner.memory.terms import item
from planner.moments import fullest
from planner.training.head import casts_frozen_head, casts_head, final_norm_bytes, head_cast, head_input
from planner.training.kept_outputs import kept_cache
from planner.training.optimizer_step import step_tensors
from planner.training.saved import cast_entries, casts_again
from planner.training.step import LOSS, Step

REFERENCE: Final = "loss_fused_linear"
WIDENS_CHUNKS_BEFORE: Final = (4, 46)
"""Liger's versions of that time, to 0.3.1, ran the loss on an fp32 copy of each chunk (`logits_chunk.float()`)."""


def fused_linear_entries(step: Step) -> list[Entry]:
    """Liger's fused head and loss: one chunk of logits, over which its gradient is written, those of input and head.

    The gradients have the formats of what they are of. Where the head is stepped as its gradient comes, the chunk has
    gone by then.
    """
    setup = step.setup
    around = [
        head_input(step, LOSS, final_norm_bytes(step)),
        _input_gradient(step),
        *kept_cache(step, LOSS),
        *(cast_entries(step, LOSS) if casts_again(setup) else []),
        *_head_casts(step),
    ]
    at_chunk = [*around, _chunk(step)]
    if setup.adapter is not None:
        return at_chunk
    head = _head_gradient(step)
    if not setup.optimizer.in_backward or step.model.tie_word_embeddings:
        return [*at_chunk, head]
    return fullest(([*at_chunk, head], [*around, head, _head_gradient(step, step_tensors(setup))]))


def _chunk(step: Step) -> Entry:
    """One chunk's logits in the format of products, and its input's cast.

    Versions to 0.3.1 widened the logits to fp32 and narrowed their gradient again.
    """
    setup, h, v, e = step.setup, step.model.hidden_size, step.vocab, step.setup.compute_bytes
    t = setup.target_tokens
    chunk = min(t, loss.fused_linear_chunk_tokens(t, h, v))
    widens = setup.runtime == "hf_trainer" and bool(setup.version) and setup.version < WIDENS_CHUNKS_BEFORE
    casts = e if final_norm_bytes(step) != e else 0
    return item(
        Category.LOGITS,
        "loss_chunks",
        chunk * (v * (2 * e + 4 if widens else e) + h * casts),
        "c*(V*(2*e + 4) + h*d)" if widens else "c*(V*e + h*d)",
        {"c": chunk, "V": v, "e": e, "h": h, "d": casts},
        REFERENCE,
        phases=LOSS,
    )


def _input_gradient(step: Step) -> Entry:
    """The gradient of what the head read, whole."""
    t, h, e = step.setup.target_tokens, step.model.hidden_size, final_norm_bytes(step)
    symbols = {"t": t, "h": h, "e": e}
    return item(Category.LOGITS, "loss_input_gradient", t * h * e, "t*h*e", symbols, REFERENCE, phases=LOSS)


def _head_casts(step: Step) -> list[Entry]:
    """Autocast's casts of the output matrix; a trained one's is there twice."""
    if casts_frozen_head(step):
        return [head_cast(step, LOSS)]
    return [head_cast(step, LOSS, 2)] if casts_head(step.setup) else []


def _head_gradient(step: Step, tensors: int | None = None) -> Entry:
    """The output matrix's gradient, or the tensors as large as it that its own optimizer step makes."""
    v, h, e = step.vocab, step.model.hidden_size, step.setup.train_bytes
    formula, symbols = "V*h*e", {"V": v, "h": h, "e": e}
    if tensors is not None:
        formula, symbols = "k*V*h*e", {"k": tensors, **symbols}
    amount = (1 if tensors is None else tensors) * v * h * e
    return item(Category.LOGITS, "loss_head_gradient", amount, formula, symbols, REFERENCE, phases=LOSS)
