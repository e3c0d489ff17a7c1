"""The end of a network's forward call: its loss, and what the loop around it does with what it puts out."""

from dataclasses import dataclass, replace

from planner.encoders.operations import WIDE
from planner.encoders.tape import Tape


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """What the loop around a network does with what it puts out.

    Attributes:
        widens: Outputs are turned into fp32 after the call (accelerate under autocast).
        keeps: They stay until those of the next step replace them.
        asks: A gradient is asked of the embedding's output, for the sake of checkpoints.
        positions: Rows of the table of positions.
        types: Rows of the table of token types.
        tied: The output matrix is the embedding.
        pretrains: The head is that of a masked language model.
        labels: Classes of a classifier.
        targets: Rows of the decoder's table of positions.
        scales: What the head reads is multiplied by a number (T5 with a tied head).
    """

    widens: bool = False
    keeps: bool = False
    asks: bool = False
    positions: int = 0
    types: int = 0
    tied: bool = True
    pretrains: bool = False
    labels: int = 2
    scales: bool = False
    targets: int = 0


def closed(
    t: Tape,
    logits: int,
    labels: int,
    loop: Loop,
    held: tuple[int, ...],
    *,
    own: bool = True,
    wide: bool = False,
) -> int:
    """Cross-entropy; the end of the forward call.

    Args:
        t: The tape.
        logits: What the loss is made of.
        labels: What they should be.
        loop: What is done with outputs.
        held: What names hold until the call is over.
        own: The class computes its loss itself, which a loop sees as the end of the forward pass.
        wide: The logits are turned into fp32 by the loss.
    """
    t.have_logits()
    if not own:
        t.enter_loss()
    first = len(t.ops)
    read = t.cast(logits, WIDE) if wide else t.raised(logits)
    chances = t.elementwise(read, keeps="output")
    loss = t.make("1", WIDE, flows=True)
    t.note([chances, labels], [loss], saves=[chances, labels], new=[chances])
    if loop.keeps:
        t.ops[first] = replace(t.ops[first], saves=(*t.ops[first].saves, logits))
    t.used(*held)
    t.leave_autocast()
    if own:
        t.enter_loss()
    if loop.widens and t.size(logits) < WIDE:
        copy = t.like(logits, WIDE, flows=False)
        t.note([logits], [copy])
        t.used(logits, copy)
    t.used(logits, loss, labels)
    return loss
