"""LitGPT's loss: logits as Lightning Fabric hands them back, in fp32, and held by the loop until the next ones come.

Fabric casts a module's output to the default format (`HalfPrecision.convert_output`), so that logits exist in 16 bit
and in fp32 while they are cast, and beside the last step's, which the loop's variable still holds.
"""

from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory.terms import item
from planner.training_step import BACKWARD, FORWARD, LOSS, Step

HEAD_CHUNK: Final = 128
"""Tokens of a sequence whose logits are made at once when adapters are trained (`lm_head_chunk_size`)."""
FP32: Final = 4
BETWEEN: Final = frozenset({Phase.REST, Phase.BACKWARD, Phase.OPTIMIZER_STEP})


def end_of_forward(step: Step) -> list[Entry]:
    """Logits, their fp32 copies, and the last step's."""
    e = step.setup.compute_bytes
    copy = FP32 if e < FP32 else 0
    return [
        _logits(step, "logits", e, FORWARD),
        *_some(step, "logits_fp32", copy, FORWARD),
        *_kept(step, FORWARD),
    ]


def chain(step: Step) -> list[Entry]:
    """The loss in chunks: each chunk's log-softmax waits for the backward pass, which begins with one's gradients.

    Full training cuts the last position off whole logits, which copies them if there are several sequences, and puts
    their gradient together again from the chunks'.
    """
    if step.setup.adapter is None:
        return [_logits(step, "logits_fp32", 2 * FP32, LOSS), _logits(step, "log_softmax", FP32, LOSS)]
    setup, v = step.setup, step.vocab
    chunk = setup.batch * min(HEAD_CHUNK, setup.target_tokens // setup.batch)
    return [
        _logits(step, "logits_fp32", FP32, LOSS),
        _logits(step, "log_softmax", FP32, LOSS),
        item(
            Category.LOGITS, "loss_chunks", chunk * v * 2 * FP32, "8*c*V", {"c": chunk, "V": v}, "loss_litgpt",
            phases=LOSS,
        ),
    ]  # fmt: skip


def head_gradients(step: Step) -> list[Entry]:
    """At the head's backward pass the logits' gradients are there, of adapters in fp32 still."""
    e = step.setup.compute_bytes if step.setup.adapter is None else FP32
    return [_logits(step, "logit_gradients", e, BACKWARD)]


def held_logits(step: Step) -> list[Entry]:
    """The loop's variable holds the logits until the next forward pass has returned."""
    share, loss = step.share, step.setup.training.loss
    if (
        step.setup.runtime != "litgpt"
        or not share.holds_head
        or step.model.head is None
        or loss == "fused_linear"
    ):
        return []
    return _kept(step, BETWEEN)


def _kept(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    return [_logits(step, "kept_logits", FP32, phases)]


def _some(step: Step, name: str, c: int, phases: frozenset[Phase]) -> list[Entry]:
    return [_logits(step, name, c, phases)] if c else []


def _logits(step: Step, name: str, c: int, phases: frozenset[Phase]) -> Entry:
    t, v = step.setup.target_tokens, step.vocab
    return item(Category.LOGITS, name, c * t * v, f"{c}*t*V", {"t": t, "V": v}, "loss_litgpt", phases=phases)
