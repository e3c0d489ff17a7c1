"""Which prices are shown, in which order, and what may be said about them. Always within one kind."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from statistics import median
from typing import Any, Final

from planner.ledger import Category
from planner.prices import Freshness, earliest_day
from ui.cost.quotes import Kind
from ui.cost.rows import Reason, Row, Status

ANY: Final = ""


class Show(StrEnum):
    """How much of a kind is listed."""

    FITS = "fits"
    TIGHT = "tight"
    ALL = "all"


SHOWN: Final = {
    Show.FITS: frozenset({Status.FITS}),
    Show.TIGHT: frozenset({Status.FITS, Status.TIGHT}),
    Show.ALL: frozenset(Status),
}
OLDEST_TIER: Final = {
    Freshness.RECENT: (Freshness.RECENT,),
    Freshness.YEAR: (Freshness.RECENT, Freshness.YEAR),
}
"""Tiers that an age filter lets through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What the user narrows the list to; `ANY` and None let everything through.

    Attributes:
        gpu: Name of a card, as listed.
        age: The oldest tier wanted.
    """

    show: Show = Show.FITS
    provider: str = ANY
    gpu: str = ANY
    age: Freshness | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Short:
    """Cards that the job does not fit on, and by how much.

    Attributes:
        used: How many of them the plan was made for.
        short_bytes: Missing on the fullest one.
        offers: How many prices that refuses.
    """

    gpu_id: str
    gpu_name: str
    used: int
    short_bytes: int
    largest: Category
    offers: int


def of_kind(rows: Iterable[Row], kind: Kind) -> tuple[Row, ...]:
    """The prices of one kind: everything below takes these and no others."""
    return tuple(row for row in rows if row.quote.kind is kind)


def card_of(row: Row) -> str:
    """The card's name in the hardware table, else as the offer writes it."""
    return row.gpu.name if row.gpu is not None else row.quote.gpu_name


def filtered(rows: Iterable[Row], wanted: Filter, today: date) -> tuple[Row, ...]:
    """The rows that a filter lets through, in order."""
    return tuple(row for row in rows if _passes(row, wanted, today))


def searched(rows: Iterable[Row], text: str) -> tuple[Row, ...]:
    """The rows in which every word occurs: in provider, instance, card or region."""
    words = text.lower().split()
    return tuple(row for row in rows if all(word in _searchable(row) for word in words))


def by_price(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Cheapest hour first; rows without a price for the job last."""
    return tuple(sorted(rows, key=_price_order))


def rankable(rows: Iterable[Row], today: date) -> tuple[Row, ...]:
    """Rows that fit, at a price of no more than a year: an older one is never called cheapest."""
    return tuple(
        row
        for row in rows
        if row.status is Status.FITS
        and row.usd_per_hour is not None
        and row.quote.age(today) is not Freshness.OLDER
    )


def cheapest(rows: Iterable[Row], today: date) -> Row | None:
    """The cheapest hour of one kind among the rankable.

    Raises:
        ValueError: The rows are of more than one kind.
    """
    return _first(rows, today, _price_order)


def cheapest_tokens(rows: Iterable[Row], today: date) -> Row | None:
    """The cheapest million tokens of one kind among the rankable whose speed is known.

    Raises:
        ValueError: The rows are of more than one kind.
    """
    known = [row for row in _ranked(rows, today) if row.usd_per_million_tokens is not None]
    return min(known, key=lambda row: (row.usd_per_million_tokens or 0.0, *_price_order(row)), default=None)


def fewest_cards(rows: Iterable[Row], today: date) -> Row | None:
    """The job on the fewest cards, the cheapest of those.

    Raises:
        ValueError: The rows are of more than one kind.
    """
    return _first(rows, today, lambda row: (row.rented.paid if row.rented else 0, *_price_order(row)))


def frontier(rows: Iterable[Row], today: date) -> tuple[Row, ...]:
    """Rankable rows than which none is both cheaper an hour and roomier, cheapest first.

    Raises:
        ValueError: The rows are of more than one kind.
    """
    found: list[Row] = []
    for row in sorted(
        _ranked(rows, today), key=lambda row: (row.usd_per_hour or 0, -(row.headroom_bytes or 0))
    ):
        if not found or (row.headroom_bytes or 0) > (found[-1].headroom_bytes or 0):
            found.append(row)
    return tuple(found)


def spot_savings(rows: Iterable[Row]) -> tuple[float, int] | None:
    """What spot saves: the median share over fitting instances with both prices, and how many."""
    shares = [
        1 - row.quote.usd_per_hour / row.quote.on_demand_usd_per_hour
        for row in rows
        if row.quote.kind is Kind.SPOT and row.status is Status.FITS and row.quote.on_demand_usd_per_hour
    ]
    return (median(shares), len(shares)) if shares else None


def shortages(rows: Iterable[Row]) -> tuple[Short, ...]:
    """Cards that are short, each number of them once, the nearest miss first."""
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row.status is Status.SHORT and row.gpu is not None and row.rented is not None:
            found.setdefault((row.gpu.id, row.rented.used), []).append(row)
    shorts = [_short(group) for group in found.values()]
    return tuple(sorted(shorts, key=lambda short: (short.short_bytes, short.gpu_name, short.used)))


def refusals(rows: Iterable[Row]) -> tuple[tuple[Reason, tuple[Row, ...]], ...]:
    """Rows refused or not comparable by reason, in the order of `Reason`."""
    listed = tuple(rows)
    groups = ((reason, tuple(row for row in listed if row.reason is reason)) for reason in Reason)
    return tuple((reason, group) for reason, group in groups if group)


def date_span(rows: Iterable[Row]) -> tuple[str, str] | None:
    """The oldest and the newest date of prices, as written; None where there is none."""
    dates = sorted({row.quote.date for row in rows if row.quote.date is not None}, key=earliest_day)
    return (dates[0], dates[-1]) if dates else None


def older_than_a_year(rows: Iterable[Row], today: date) -> int:
    """How many prices are in the oldest tier."""
    return sum(row.quote.age(today) is Freshness.OLDER for row in rows)


def _ranked(rows: Iterable[Row], today: date) -> Sequence[Row]:
    listed = tuple(rows)
    if len({row.quote.kind for row in listed}) > 1:
        raise ValueError("prices of different kinds are never ranked together")
    return rankable(listed, today)


def _first(rows: Iterable[Row], today: date, order: Callable[[Row], Any]) -> Row | None:
    return min(_ranked(rows, today), key=order, default=None)


def _price_order(row: Row) -> tuple[bool, float, int, str, str]:
    price, paid = row.usd_per_hour, row.rented.paid if row.rented else 0
    return price is None, price or 0.0, paid, row.quote.provider, row.quote.name


def _passes(row: Row, wanted: Filter, today: date) -> bool:
    quote = row.quote
    if row.status not in SHOWN[wanted.show]:
        return False
    if wanted.provider not in (ANY, quote.provider) or wanted.gpu not in (ANY, card_of(row)):
        return False
    return wanted.age is None or quote.age(today) in (None, *OLDEST_TIER[wanted.age])


def _searchable(row: Row) -> str:
    quote = row.quote
    return " ".join((quote.provider, quote.name, quote.gpu_name, card_of(row), quote.region)).lower()


def _short(group: Sequence[Row]) -> Short:
    row = group[0]
    if row.gpu is None or row.fit is None or row.rented is None:
        raise ValueError("a row that is short has a card, cards rented and a plan")
    return Short(
        gpu_id=row.gpu.id,
        gpu_name=row.gpu.name,
        used=row.rented.used,
        short_bytes=-(row.fit.headroom_bytes or 0),
        largest=row.fit.largest,
        offers=len(group),
    )
