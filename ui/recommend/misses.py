"""Machines without a plan: which comes nearest, and what its cards are called."""

from collections.abc import Sequence

from planner.search.types import Fails, Rejected
from ui.cost.money import cards_text, short_card
from ui.names import card_name
from ui.numbers import TIMES, whole


def nearest_miss(rejected: Sequence[Rejected]) -> Rejected | None:
    """What comes nearest to fitting: the least short of memory."""
    short = [one for one in rejected if one.reason is Fails.MEMORY]
    return min(short, key=lambda one: one.short_bytes or 0, default=None)


def rejected_cards(one: Rejected) -> str:
    """The cards of the plan that came nearest."""
    return cards_text(one.devices or one.machine.devices, one.machine.gpu)


def told_apart(listed: Sequence[Rejected]) -> list[str]:
    """The cards of each row; where two cards would be called the same, by name and form factor."""
    ids: dict[str, set[str]] = {}
    for one in listed:
        ids.setdefault(short_card(one.machine.gpu), set()).add(one.machine.gpu.id)
    return [
        rejected_cards(one)
        if len(ids[short_card(one.machine.gpu)]) == 1
        else f"{whole(one.devices or one.machine.devices)} {TIMES} {card_name(one.machine.gpu.name)}"
        for one in listed
    ]
