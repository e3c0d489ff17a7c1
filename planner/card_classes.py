"""Classes of cards: what consumers buy, boards for workstations and servers, modules that the maker joins."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from planner.hardware import Gpu
from planner.prices import earliest_day

CONSUMER_MARKS: Final = ("GeForce", "TITAN", "Radeon RX", "Arc A", "Arc B")
PROFESSIONAL_MARKS: Final = ("Ada", "Quadro", "PRO", "Pro")
MODULES: Final = ("SXM", "OAM", "rack module", "superchip", "SH5")
BOARD: Final = "PCIe"


class CardClass(StrEnum):
    """What a card is made for; what is built into a computer or only let has no class."""

    CONSUMER = "consumer"
    PROFESSIONAL = "professional"
    COMPUTE = "compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The least and the most of a figure."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFacts:
    """What the cards of a class have. Spans are None where no card of it tells the figure.

    Attributes:
        cards: How many the table holds.
        memory_gib: On the box, of one card.
        bandwidth_bytes_per_s: Of the memory.
        link_bytes_per_s: Card to card, both directions together; cards without a link left out.
        linked: Cards with a link beyond PCIe.
        power_w: Limit.
        price_usd: Of one card, list and street.
        priced: Cards with a price.
        price_dates: The oldest and the newest of those prices.
    """

    card_class: CardClass
    cards: int
    memory_gib: Span
    bandwidth_bytes_per_s: Span | None
    link_bytes_per_s: Span | None
    linked: int
    power_w: Span | None
    price_usd: Span | None
    priced: int
    price_dates: tuple[str, str] | None


def class_of(gpu: Gpu) -> CardClass | None:
    """The class of a card, by its form and by the line it is sold in."""
    form = gpu.form_factor or ""
    if any(mark in form for mark in MODULES):
        return CardClass.COMPUTE
    if form == "laptop":
        return CardClass.CONSUMER
    if BOARD not in form:
        return None
    if any(mark in gpu.name for mark in PROFESSIONAL_MARKS):
        return CardClass.PROFESSIONAL
    if any(gpu.name.startswith(mark) for mark in CONSUMER_MARKS):
        return CardClass.CONSUMER
    return CardClass.PROFESSIONAL


def class_facts(gpus: Iterable[Gpu]) -> tuple[ClassFacts, ...]:
    """The facts of each class that has cards, in the order of `CardClass`."""
    listed = [(class_of(gpu), gpu) for gpu in gpus if gpu.memory_nominal_gb is not None]
    groups = ((one, [gpu for found, gpu in listed if found is one]) for one in CardClass)
    return tuple(_facts(one, group) for one, group in groups if group)


def card_prices(gpu: Gpu) -> tuple[tuple[float, str], ...]:
    """Dated prices of one card: list, then street."""
    return tuple((price.usd, price.date) for price in (gpu.list_price, gpu.street_price) if price is not None)


def newest_price(gpu: Gpu) -> tuple[float, str] | None:
    """The newest of them; of two of one day the one on the street."""
    return max(card_prices(gpu), key=lambda price: earliest_day(price[1]), default=None)


def _facts(card_class: CardClass, gpus: list[Gpu]) -> ClassFacts:
    prices = [price for gpu in gpus for price in card_prices(gpu)]
    dates = sorted((date for _, date in prices), key=earliest_day)
    links = [gpu.interconnect_bidir_bytes_per_s for gpu in gpus]
    memory = _span(gpus, lambda gpu: (gpu.memory_nominal_gb or 0.0) * gpu.devices_per_card)
    return ClassFacts(
        card_class=card_class,
        cards=len(gpus),
        memory_gib=memory or Span(low=0, high=0),
        bandwidth_bytes_per_s=_span(gpus, lambda gpu: gpu.bandwidth_bytes_per_s),
        link_bytes_per_s=_span(gpus, lambda gpu: gpu.interconnect_bidir_bytes_per_s),
        linked=sum(link is not None for link in links),
        power_w=_span(gpus, lambda gpu: gpu.tdp_w),
        price_usd=_of([usd for usd, _ in prices]),
        priced=sum(bool(card_prices(gpu)) for gpu in gpus),
        price_dates=(dates[0], dates[-1]) if dates else None,
    )


def _span(gpus: list[Gpu], figure: Callable[[Gpu], float | None]) -> Span | None:
    return _of([value for gpu in gpus if (value := figure(gpu)) is not None])


def _of(values: list[float]) -> Span | None:
    return Span(low=min(values), high=max(values)) if values else None
