"""What the Recommend page asks: the constraints as a value, and the search they make, remembered."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import lru_cache
from json import loads
from typing import Final, cast

from planner.prices import Offer
from planner.search.find import search
from planner.search.offers import Kind as PriceKind
from planner.search.offers import left_out, machines_of
from planner.search.rigs import owned
from planner.search.types import (
    MOST_CARDS,
    SAME_RESULT,
    SEQUENCES,
    TOKENS,
    Fails,
    Limits,
    Machine,
    SearchResult,
    Technique,
)
from planner.validation import parse_scenario
from ui import answers
from ui.document import Document, canonical, get, put_all

REMEMBERED: Final = 16


class Kind(StrEnum):
    """What machines are taken from. Prices of two kinds are never ranked together."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    MARKETPLACE = "marketplace"
    OWN = "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The constraints.

    Attributes:
        kind: What machines are taken from.
        providers: Wanted ones; empty for all.
        regions: Wanted ones; empty for all.
        cards: Cards that are there, by id, with `Kind.OWN`.
        techniques: What may be changed.
        tokens: Training tokens, every epoch counted.
        sequences: Of an optimizer step.
        tight: Plans count that may not fit.
    """

    kind: Kind = Kind.ON_DEMAND
    providers: frozenset[str] = frozenset()
    regions: frozenset[str] = frozenset()
    cards: tuple[tuple[str, int], ...] = ()
    techniques: frozenset[Technique] = SAME_RESULT
    most_cards: int = MOST_CARDS
    deadline_days: float | None = None
    budget_usd: float | None = None
    tokens: float = TOKENS
    sequences: int = SEQUENCES
    tight: bool = False

    @property
    def limits(self) -> Limits:
        """The same for the search."""
        return Limits(
            techniques=self.techniques, most_cards=self.most_cards, deadline_days=self.deadline_days,
            budget_usd=self.budget_usd, tokens=self.tokens, sequences=self.sequences, accept_tight=self.tight,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the search found, and the offers that it had nothing to go by.

    Attributes:
        result: What was found.
        left: Offers of the kind that no plan can be made for, by reason.
    """

    result: SearchResult
    left: tuple[tuple[Fails, tuple[Offer, ...]], ...]


def reply(document: Document, ask: Ask, offers: Sequence[Offer], today: date) -> Reply:
    """The search for a question; its cards and their number don't matter, so that changing them asks nothing anew.

    Args:
        document: A question of a job that trains, without errors.
        ask: The constraints.
        offers: Prices.
        today: For their age.
    """
    return _reply(canonical(put_all(document, WITHOUT_CARDS)), ask, tuple(offers), today)


WITHOUT_CARDS: Final = {
    **dict.fromkeys(
        ("hardware.devices_per_node", "hardware.host_memory_gib", "hardware.nvme_gb", "name", "economics")
    ),
    "hardware.devices": [{"gpu": "unknown", "count": 1}],
    **dict.fromkeys(
        f"parallel.{name}" for name in ("data", "tensor", "pipeline", "context", "stages", "pipeline_layers")
    ),
}


@lru_cache(maxsize=REMEMBERED)
def _reply(text: str, ask: Ask, offers: tuple[Offer, ...], today: date) -> Reply:
    scenario, issues = parse_scenario(loads(text))
    if scenario is None:
        raise ValueError(f"a question with errors: {issues}")
    tables = answers.tables_for(scenario)
    machines, left = machines_for(ask, offers, today)
    groups: dict[Fails, list[Offer]] = {}
    for offer in left:
        groups.setdefault(left_out(offer, tables), []).append(offer)
    return Reply(
        result=search(scenario, machines, tables, ask.limits),
        left=tuple((reason, tuple(group)) for reason, group in groups.items()),
    )


def machines_for(
    ask: Ask, offers: tuple[Offer, ...], today: date
) -> tuple[tuple[Machine, ...], tuple[Offer, ...]]:
    """What can be rented or is there, and the offers that no plan can be made for."""
    tables = answers.tables()
    if ask.kind is Kind.OWN:
        known = [(tables.gpus[gpu_id], count) for gpu_id, count in ask.cards if gpu_id in tables.gpus]
        return tuple(machine for gpu, count in known for machine in owned(gpu, count)), ()
    return machines_of(
        offers, tables, cast("PriceKind", ask.kind.value), today=today,
        providers=ask.providers, regions=ask.regions,
    )  # fmt: skip


def cards_of(document: Document) -> tuple[tuple[str, int], ...]:
    """The open question's own cards that the table has."""
    rows: list[Document] = get(document, "hardware.devices", [])
    counts: dict[str, int] = {}
    for row in rows:
        if row.get("gpu") in answers.tables().gpus:
            counts[row["gpu"]] = counts.get(row["gpu"], 0) + int(row.get("count", 1))
    return tuple(counts.items())
