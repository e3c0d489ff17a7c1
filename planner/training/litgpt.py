"""LitGPT's loss: logits as Lightning Fabric hands them back, in fp32, and held by the loop until the next ones come.

Fabric casts a module's output to the default format (`HalfPrecision.convert_output`), so that logits exist in 16 bit
and in fp32 while they are cast, and beside the last step's, which the loop's variable still holds.
"""

from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory.layer_view import View
from planner.memory.litgpt import longest_first, packed_inputs, packs
from planner.memory.terms import item, summed
from planner.moments import fullest
from planner.training.step import BACKWARD, FORWARD, LOSS, Step

HEAD_CHUNK: Final = 128
"""Tokens of a sequence whose logits are made at once when adapters are trained (`lm_head_chunk_size`)."""
FP32: Final = 4
BETWEEN: Final = frozenset({Phase.REST, Phase.BACKWARD, Phase.OPTIMIZER_STEP})


def end_of_forward(step: Step) -> list[Entry]:
    """Logits, their fp32 copies, and the last step's."""
    e = step.setup.compute_bytes
    copy = FP32 if e < FP32 else 0
    logits = [_logits(step, "logits", e, FORWARD)]
    copies = _some(step, "logits_fp32", copy, FORWARD)
    return [*logits, *fullest((copies, _unpacked_head(step, FORWARD))), *_last_step(step)]


def _last_step(step: Step) -> list[Entry]:
    """What the loop's variables hold of the step before: its logits, and of its graph what no backward pass frees.

    A 4-bit product's input is an attribute of its node; the node lives as long as the loss. Not where the first
    micro-batch is the longest: before it there is none.
    """
    return [] if longest_first(step.setup) else [*_kept(step, FORWARD), *_last_graph(step, FORWARD)]


def _last_graph(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    setup = step.setup
    if not packs(setup) or longest_first(setup) or setup.checkpointed:
        return []
    entries = []
    for kind in step.kinds:
        view = View(kind.layer, step.model, setup, (), frozenset())
        kept = summed(packed_inputs(view), kind.form.widths)
        tokens = setup.batch * kind.sequence
        entries.append(
            item(
                Category.ACTIVATIONS,
                "last_graph",
                kind.count * tokens * kept.bytes,
                f"L*t*({kept.text})",
                {"L": kind.count, "t": tokens, **kept.symbols},
                "packed_inputs",
                phases=phases,
            )
        )
    return entries


def _unpacked_head(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """The head's matrix, unpacked to fp16 and cast to bf16 for its product (`dequantize_4bit(...).to(A.dtype)`)."""
    v, h = step.vocab, step.model.hidden_size
    if not packs(step.setup):
        return []
    return [
        item(
            Category.WEIGHTS, "unpacked_head", 4 * v * h, "4*V*h", {"V": v, "h": h}, "packed_inputs", phases=phases
        )
    ]  # fmt: skip


def chain(step: Step) -> list[Entry]:
    """The loss in chunks: each chunk's log-softmax waits for the backward pass, which begins with one's gradients.

    Full training cuts the last position off whole logits, which copies them if there are several sequences, and puts
    their gradient together again from the chunks'.
    """
    if step.setup.adapter is None:
        return [_logits(step, "logits_fp32", 2 * FP32, LOSS), _logits(step, "log_softmax", FP32, LOSS)]
    setup, v = step.setup, step.vocab
    c = setup.batch * min(HEAD_CHUNK, setup.target_tokens // setup.batch)
    symbols = {"c": c, "V": v}
    chunk = item(Category.LOGITS, "loss_chunks", 8 * c * v, "8*c*V", symbols, "loss_litgpt", phases=LOSS)
    return [
        _logits(step, "logits_fp32", FP32, LOSS),
        _logits(step, "log_softmax", FP32, LOSS),
        *fullest(([chunk], _last_graph(step, LOSS))),
    ]


def head_gradients(step: Step) -> list[Entry]:
    """At the head's backward pass the logits' gradients are there, of adapters in fp32 still."""
    e = step.setup.compute_bytes if step.setup.adapter is None else FP32
    return [_logits(step, "logit_gradients", e, BACKWARD), *_unpacked_head(step, BACKWARD)]


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
