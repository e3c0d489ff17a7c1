"""The user's own prices: what was typed, and the quote it makes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from planner.hardware import Gpu
from planner.prices import Offer
from ui.cost.currency import Exchange
from ui.cost.quotes import PER_GPU, Kind, Quote
from ui.whole import is_whole

MOST_PER_HOUR: Final = 1_000_000
MOST_CARDS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPrice:
    """One line as typed; nothing in it is trusted.

    Attributes:
        name: Free text, or an instance type of the table, which then tells card and count.
        gpu_id: The card; None where the name is to tell it.
        cards: Cards that the price is for.
        per_hour: For all of them together, in the currency that amounts are typed in.
    """

    name: str = ""
    gpu_id: str | None = None
    cards: int | None = 1
    per_hour: float | None = None


def problem_of(own: OwnPrice, offers: Iterable[Offer]) -> str | None:
    """What is missing or cannot be; words are `cost.own.problem.<code>`. None where it makes a quote."""
    if own.per_hour is None:
        return "no_price"
    if not 0 < own.per_hour <= MOST_PER_HOUR:
        return "price"
    if own.gpu_id is None:
        return None if _named(own.name, offers) else "no_card"
    if not is_whole(own.cards) or not 1 <= (own.cards or 0) <= MOST_CARDS:
        return "cards"
    return None


def own_quote(
    own: OwnPrice, offers: Iterable[Offer], gpus: Mapping[str, Gpu], exchange: Exchange | None = None
) -> Quote | None:
    """The price as a quote of its own kind; None where `problem_of` names something or the rate is not known.

    Args:
        own: As typed.
        offers: The table that instance types are looked up in.
        gpus: Cards by id, described ones among them.
        exchange: The currency; dollars by default.
    """
    listed, money = tuple(offers), exchange or Exchange()
    usd_per_hour = money.usd(own.per_hour)
    if problem_of(own, listed) is not None or usd_per_hour is None:
        return None
    offer = _named(own.name, listed) if own.gpu_id is None else None
    gpu_id = own.gpu_id if offer is None else offer.gpu_id
    gpu = gpus.get(gpu_id or "")
    return Quote(
        kind=Kind.OWN,
        provider="",
        name=own.name.strip(),
        gpu_name=gpu.name if gpu is not None else (offer.gpu_name if offer is not None else gpu_id or ""),
        gpu_id=gpu_id,
        cards=own.cards if offer is None else offer.gpu_count,
        per_card=False,
        region="",
        usd_per_hour=usd_per_hour,
        date=None,
        source="",
    )


def _named(name: str, offers: Iterable[Offer]) -> Offer | None:
    """The instance type of this name that tells its card and count."""
    wanted = name.strip().lower()
    if not wanted:
        return None
    return next(
        (
            offer
            for offer in offers
            if offer.instance_type.removeprefix(PER_GPU).lower() == wanted
            and offer.gpu_id is not None
            and offer.gpu_count is not None
        ),
        None,
    )
