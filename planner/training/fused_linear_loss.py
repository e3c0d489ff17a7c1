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

WIDENS_CHUNKS_BEFORE: Final = (4, 46)
"""Liger's versions of that time, to 0.3.1, ran the loss on an fp32 copy of each chunk (`logits_chunk.float()`)."""


def fused_linear_entries(step: Step) -> list[Entry]:
    """Liger's fused head and loss: one chunk of logits, over which its gradient is written, those of input and head.

    The gradients have the formats of what they are of; the chunk is in that of products. Before, a chunk's logits were
    widened to fp32 and its gradient was narrowed again.
    """
    setup, h, v, e = step.setup, step.model.hidden_size, step.vocab, step.setup.compute_bytes
    t, reference, given = setup.target_tokens, "loss_fused_linear", final_norm_bytes(step)
    widens = setup.runtime == "hf_trainer" and bool(setup.version) and setup.version < WIDENS_CHUNKS_BEFORE
    chunk = min(t, loss.fused_linear_chunk_tokens(t, h, v))
    casts = e if given != e else 0
    entries = [
        head_input(step, LOSS, given),
        item(
            Category.LOGITS,
            "loss_chunks",
            chunk * (v * (2 * e + 4 if widens else e) + h * casts),
            "c*(V*(2*e + 4) + h*d)" if widens else "c*(V*e + h*d)",
            {"c": chunk, "V": v, "e": e, "h": h, "d": casts},
            reference,
            phases=LOSS,
        ),
        item(
            Category.LOGITS,
            "loss_input_gradient",
            t * h * given,
            "t*h*e",
            {"t": t, "h": h, "e": given},
            reference,
            phases=LOSS,
        ),
        *kept_cache(step, LOSS),
        *(cast_entries(step, LOSS) if casts_again(setup) else []),
    ]
    if casts_frozen_head(step):
        entries.append(head_cast(step, LOSS))
    elif casts_head(setup):
        entries.append(head_cast(step, LOSS, 2))
    if setup.adapter is not None:
        return entries
    head = item(
        Category.LOGITS,
        "loss_head_gradient",
        v * h * setup.train_bytes,
        "V*h*e",
        {"V": v, "h": h, "e": setup.train_bytes},
        reference,
        phases=LOSS,
    )
    if not setup.optimizer.in_backward or step.model.tie_word_embeddings:
        return [*entries, head]
    k, e = step_tensors(setup), setup.train_bytes
    stepped = item(
        Category.LOGITS,
        "loss_head_gradient",
        k * v * h * e,
        "k*V*h*e",
        {"k": k, "V": v, "h": h, "e": e},
        reference,
        phases=LOSS,
    )
    without = [entry for entry in entries if entry.name != "loss_chunks"]
    return fullest(([*entries, head], [*without, head, stepped]))
