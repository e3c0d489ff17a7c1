"""Dated prices: of a card, of an hour on rented cards, and how old a date makes them."""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import Literal

PriceKind = Literal["on_demand", "marketplace", "index"]

RECENT_DAYS = 90
YEAR_DAYS = 365
_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")


class Freshness(StrEnum):
    """How old a price is: up to 90 days, up to a year, older."""

    RECENT = "recent"
    YEAR = "year"
    OLDER = "older"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A dated purchase price; a point somebody saw, not an offer.

    Attributes:
        usd: US dollars for one card (both dies of a two-die card) or one whole node.
        date: ISO date or prefix of one (`2026`, `2026-02`).
        source: Where it was published.
        recalled: Written from memory, not re-read.
    """

    usd: float
    date: str
    source: str
    recalled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A price per hour somebody published. Prices of different `price_kind` are never ranked together.

    Attributes:
        gpu_id: The card in the hardware table; None where the offer does not say which.
        gpu_count: Cards of the instance; below 1 for a share of a card, None where not told.
        gpu_memory_gib: Memory of one card as the catalogue tells it.
        gpu_frac: Share of a card that is let, None for whole ones.
        ram_gib: Host memory of the instance.
        price_kind: `on_demand`, `marketplace` (the cheapest seen, spot-like) or `index`.
        usd_per_hour: Whole instance; None where only a spot price is known.
        usd_per_gpu_hour: For one whole card.
        date: ISO date or prefix of one.
    """

    provider: str
    instance_type: str
    gpu_name: str
    gpu_id: str | None
    gpu_count: float | None
    gpu_memory_gib: float | None
    gpu_frac: float | None
    vcpus: float | None
    ram_gib: float | None
    region: str
    price_kind: PriceKind
    usd_per_hour: float | None
    spot_usd_per_hour: float | None
    usd_per_gpu_hour: float | None
    date: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchasePrice:
    """One purchase price of a card, ready for a table: which card, list or street, and the dated price."""

    gpu_id: str
    kind: Literal["list", "street"]
    price: Price


def earliest_day(date_text: str) -> date:
    """The first day an ISO date or prefix can mean: `2026` is 1 January 2026.

    Raises:
        ValueError: Not a date or prefix.
    """
    match = _DATE.fullmatch(date_text)
    if match is None:
        raise ValueError(f"{date_text!r} is not a date (YYYY, YYYY-MM or YYYY-MM-DD)")
    return date(int(match[1]), int(match[2] or 1), int(match[3] or 1))


def freshness(date_text: str, today: date) -> Freshness:
    """The tier of a dated price, counted from the earliest day it can mean."""
    age = today - earliest_day(date_text)
    if age <= timedelta(days=RECENT_DAYS):
        return Freshness.RECENT
    return Freshness.YEAR if age <= timedelta(days=YEAR_DAYS) else Freshness.OLDER
