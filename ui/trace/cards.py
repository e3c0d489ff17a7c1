"""Which cards of the tables a traced step runs on, and where it runs out on the others. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from hardware_db import load_tables
from planner.plan_types import Plan
from profiler.allocator.caching import Cause
from profiler.allocator.settings import AllocatorSettings
from profiler.trace.answer import Answer, Stop, answer
from profiler.trace.cards import smallest_bytes
from profiler.trace.record import Trace
from profiler.trace.request import Capability, outside_bytes

AMPERE: Capability = (8, 0)
VOLTA: Capability = (7, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A card of the tables.

    Attributes:
        name: Its name.
        usable_bytes: What a process can use on it.
        capacity_bytes: What it can give the allocator.
    """

    name: str
    usable_bytes: int
    capacity_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRow:
    """What becomes of the step on a card.

    Attributes:
        card: The card.
        is_own: Whether it is the card of the question.
        is_smallest: Whether it is the smallest one that the step runs on.
        stop: Where it runs out, None if it runs to its end.
        needs_more: Whether what the step holds at its fullest is more than the card can give: then it is demand
            that stops it, whatever stood in the way first.
        retries: How often everything cached has to be given back on the way.
        spare_bytes: What is left beside the reserved peak of an unlimited run, None where less than that is there.
    """

    card: Card
    is_own: bool
    is_smallest: bool
    stop: Stop | None
    needs_more: bool
    retries: int
    spare_bytes: int | None

    @property
    def cause(self) -> Cause | None:
        """Why it runs out, None if it does not."""
        if self.stop is None:
            return None
        return "demand" if self.needs_more else self.stop.at.cause


def cards_of(plan: Plan, target: Capability) -> tuple[Card, ...]:
    """Cards of the target's kind with their memory, smallest first; of equally large ones the first by name.

    Args:
        plan: For what the process holds beside the allocator.
        target: Compute capability that was traced. From Ampere on kernels and formats are alike enough.
    """
    least = AMPERE if target >= AMPERE else VOLTA
    outside = outside_bytes(plan.worst)
    found: dict[int, Card] = {}
    for gpu in sorted(load_tables().gpus.values(), key=lambda one: one.name):
        capability, usable = gpu.compute_capability, gpu.usable_bytes
        if capability is None or capability < least or usable is None or gpu.unified_memory:
            continue
        capacity = max(usable - outside, 0)
        found.setdefault(usable, Card(name=gpu.name, usable_bytes=usable, capacity_bytes=capacity))
    return tuple(found[usable] for usable in sorted(found))


def card_rows(
    trace: Trace, settings: AllocatorSettings, free: Answer, cards: Sequence[Card], own: Card | None
) -> tuple[CardRow, ...]:
    """The largest card that is too small, the smallest that is not, the next one, and the question's own.

    Args:
        trace: The run.
        settings: The allocator's.
        free: The answer without a limit.
        cards: Smallest first.
        own: The card of the question, None if its size is not known.
    """
    least = smallest_bytes(trace, settings, free, [card.capacity_bytes for card in cards])
    at = next((i for i, card in enumerate(cards) if card.capacity_bytes == least), len(cards))
    near = dict.fromkeys(cards[max(at - 1, 0) : at + 2])
    if own is not None:
        near = {card: None for card in near if card.usable_bytes != own.usable_bytes} | {own: None}
    shown = sorted(near, key=lambda card: card.capacity_bytes)
    return tuple(
        _row(trace, settings, free, card, is_own=card is own, is_smallest=card.capacity_bytes == least)
        for card in shown
    )


def _row(
    trace: Trace, settings: AllocatorSettings, free: Answer, card: Card, *, is_own: bool, is_smallest: bool
) -> CardRow:
    spare = card.capacity_bytes - free.peak_reserved_bytes
    limited = None if spare >= 0 else answer(trace, settings, card.capacity_bytes)
    return CardRow(
        card=card,
        is_own=is_own,
        is_smallest=is_smallest,
        stop=None if limited is None else limited.ran_out,
        needs_more=free.peak_tensor_bytes > card.capacity_bytes,
        retries=0 if limited is None else limited.retries,
        spare_bytes=spare if spare >= 0 else None,
    )
