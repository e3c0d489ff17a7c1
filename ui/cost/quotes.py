"""Prices an hour, each of one kind: an offer that tells an on-demand and a spot price is two of them."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from planner.prices import Freshness, Offer, freshness

PER_GPU: Final = "per GPU: "
"""How the table of offers begins the type of a price for single cards, of which any number may be rented."""


class Kind(StrEnum):
    """Kinds of price. Two kinds are never ranked together."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    MARKETPLACE = "marketplace"
    INDEX = "index"
    OWN = "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """One price an hour of one kind.

    Attributes:
        name: Instance type, or the card for a price per card.
        gpu_id: Card of the hardware table; None where the offer does not say which.
        cards: Cards of the instance; below 1 for a share of a card, None where not told.
        per_card: Any number of cards may be rented at this price.
        usd_per_hour: Whole instance, or one card.
        on_demand_usd_per_hour: For a spot price, the on-demand price of the same row.
        date: ISO date or prefix of one; None for the user's own.
        source: Where it was published; empty for the user's own.
    """

    kind: Kind
    provider: str
    name: str
    gpu_name: str
    gpu_id: str | None
    cards: float | None
    per_card: bool
    region: str
    usd_per_hour: float
    on_demand_usd_per_hour: float | None = None
    date: str | None
    source: str

    @property
    def usd_per_gpu_hour(self) -> float | None:
        """For one whole card; None where the number of cards is not told: the price cannot be taken apart."""
        return self.usd_per_hour / self.cards if self.cards else None

    def age(self, today: dt.date) -> Freshness | None:
        """The tier of its date; None for the user's own, which is as new as the user says."""
        return None if self.date is None else freshness(self.date, today)


def quotes(offers: Iterable[Offer]) -> tuple[Quote, ...]:
    """Every price of every offer, in table order."""
    return tuple(quote for offer in offers for quote in _of(offer))


def _of(offer: Offer) -> Iterable[Quote]:
    if offer.usd_per_hour is not None:
        yield _quote(offer, Kind(offer.price_kind), offer.usd_per_hour, None)
    if offer.spot_usd_per_hour is not None:
        yield _quote(offer, Kind.SPOT, offer.spot_usd_per_hour, offer.usd_per_hour)


def _quote(offer: Offer, kind: Kind, usd: float, on_demand: float | None) -> Quote:
    return Quote(
        kind=kind,
        provider=offer.provider,
        name=offer.instance_type.removeprefix(PER_GPU),
        gpu_name=offer.gpu_name,
        gpu_id=offer.gpu_id,
        cards=offer.gpu_count,
        per_card=offer.instance_type.startswith(PER_GPU),
        region=offer.region,
        usd_per_hour=usd,
        on_demand_usd_per_hour=on_demand,
        date=offer.date,
        source=offer.source,
    )
