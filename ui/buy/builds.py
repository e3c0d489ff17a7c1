"""A machine to buy, as typed, and what is known of its price, its power and the rent of one like it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final

from planner.card_classes import newest_price
from planner.hardware import Gpu, Node
from planner.prices import Freshness, earliest_day
from planner.scenario import Device
from planner.units import ceil_div
from ui.cost.currency import Exchange
from ui.cost.quotes import Kind, Quote
from ui.document import Document, get
from ui.whole import is_whole

MOST_BUILDS: Final = 4
MOST_CARDS: Final = 100_000
MOST_AMOUNT: Final = 1e12
LETTERS: Final = "ABCD"
AMOUNTS: Final = ("price", "rent_per_hour")
OPEN: Final = ""
"""Stands for the cards of the open question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One line as typed; nothing in it is trusted.

    Attributes:
        gpu_id: A card of the table or one described in the open question; `OPEN` for the open question's own cards.
        count: Cards, as the runtime counts them; not used for `OPEN`.
        price: Of the whole machine, in the currency that amounts are typed in; None takes what is known.
        rent_per_hour: Of one like it, in that currency; None takes what is known.
        power_w: At work; None takes what is known.
        awaits: Amounts that were typed in a currency whose rate is not known; what is known does not replace them.
    """

    gpu_id: str = OPEN
    count: int | None = 1
    price: float | None = None
    rent_per_hour: float | None = None
    power_w: float | None = None
    awaits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A figure with where it comes from.

    Attributes:
        value: Dollars, or watts.
        how: `typed`, `node` (a whole machine of the table), `cards` (the cards alone) or `offer`.
        date: Of the oldest price in it; None where it has none.
        source: Who tells it; empty where typed.
    """

    value: float
    how: str
    date: str | None = None
    source: str = ""


def first_builds() -> tuple[Build, ...]:
    """The open question's cards, a server and two workstations: sizes people weigh against each other."""
    return (
        Build(),
        Build(gpu_id="h100-sxm-80gb", count=8),
        Build(gpu_id="rtx-pro-6000-blackwell-workstation-96gb", count=4),
    )


def in_dollars(build: Build, exchange: Exchange) -> Build:
    """The build with its amounts in dollars; without a rate it awaits it for those that were typed."""
    typed = frozenset(name for name in AMOUNTS if getattr(build, name) is not None)
    return replace(
        build,
        price=exchange.usd(build.price),
        rent_per_hour=exchange.usd(build.rent_per_hour),
        awaits=frozenset() if exchange.is_known else typed,
    )


def problem_of(build: Build, known: Iterable[str]) -> str | None:
    """What cannot be; words are `buy.problem.<code>`. None where the build can be planned."""
    if build.gpu_id != OPEN:
        if build.gpu_id not in set(known):
            return "card"
        if not is_whole(build.count) or not 1 <= (build.count or 0) <= MOST_CARDS:
            return "count"
    for name in ("price", "rent_per_hour", "power_w"):
        value = getattr(build, name)
        if value is not None and not 0 <= value <= MOST_AMOUNT:
            return name
    return None


def device_rows(build: Build, document: Document, described: Mapping[str, Document]) -> list[Document]:
    """The rows of cards of a build, as a question has them."""
    if build.gpu_id == OPEN:
        rows: Any = get(document, "hardware.devices", [])
        return [dict(row) for row in rows] if isinstance(rows, list) else []
    row: Document = {"gpu": build.gpu_id, "count": build.count or 1}
    if build.gpu_id in described:
        row["card"] = described[build.gpu_id]
    return [row]


Counted = Sequence[tuple[Gpu, int]]


def counted(rows: Iterable[Device], gpu_of_row: Mapping[str, Gpu]) -> Counted:
    """Cards of a build by kind, in order of first use."""
    found: dict[str, int] = {}
    for row in rows:
        found[row.gpu] = found.get(row.gpu, 0) + row.count
    return tuple((gpu_of_row.get(name) or Gpu(id=name, name=name), count) for name, count in found.items())


def price_of(build: Build, cards: Counted, nodes: Iterable[Node]) -> Known | None:
    """The price as typed, else of whole machines of the table, else of the cards alone; None where none is known."""
    if build.price is not None:
        return Known(value=build.price, how="typed")
    if "price" in build.awaits:
        return None
    node = _node(cards, [node for node in nodes if node.price is not None])
    if node is not None and node.price is not None:
        machines = cards[0][1] // node.gpus_per_node
        return Known(value=node.price.usd * machines, how="node", date=node.price.date, source=node.name)
    prices = [(newest_price(gpu), ceil_div(count, gpu.devices_per_card)) for gpu, count in cards]
    known = [(price, count) for price, count in prices if price is not None]
    if not known or len(known) < len(prices):
        return None
    oldest = min((price[1] for price, _ in known), key=earliest_day)
    return Known(value=sum(price[0] * count for price, count in known), how="cards", date=oldest)


def power_of(build: Build, cards: Counted, nodes: Iterable[Node]) -> Known | None:
    """The power as typed, else of whole machines of the table, else of the cards alone."""
    if build.power_w is not None:
        return Known(value=build.power_w, how="typed")
    node = _node(cards, [node for node in nodes if node.power_w is not None])
    if node is not None and node.power_w is not None:
        return Known(value=node.power_w * (cards[0][1] // node.gpus_per_node), how="node", source=node.name)
    limits = [(gpu.tdp_w, count) for gpu, count in cards]
    if any(limit is None for limit, _ in limits):
        return None
    return Known(value=sum((limit or 0) * count for limit, count in limits), how="cards")


def rent_of(build: Build, cards: Counted, quotes: Iterable[Quote], today: date) -> Known | None:
    """The rent as typed, else the cheapest on demand of no more than a year, card by card, for as many cards."""
    if build.rent_per_hour is not None:
        return Known(value=build.rent_per_hour, how="typed")
    if "rent_per_hour" in build.awaits:
        return None
    listed = [
        quote
        for quote in quotes
        if quote.kind is Kind.ON_DEMAND
        and quote.usd_per_gpu_hour is not None
        and (quote.cards or 0) >= 1
        and quote.age(today) is not Freshness.OLDER
    ]
    total, best = 0.0, None
    for gpu, count in cards:
        same = [quote for quote in listed if quote.gpu_id == gpu.id]
        if not same:
            return None
        best = min(same, key=lambda quote: quote.usd_per_gpu_hour or 0.0)
        total += (best.usd_per_gpu_hour or 0.0) * ceil_div(count, gpu.devices_per_card)
    if best is None:
        return None
    return Known(value=total, how="offer", date=best.date, source=best.provider)


def _node(cards: Counted, nodes: Sequence[Node]) -> Node | None:
    """The newest machine of the table that the build is a whole number of."""
    if len(cards) != 1:
        return None
    gpu, count = cards[0]
    fitting = [node for node in nodes if node.gpu_id == gpu.id and count % node.gpus_per_node == 0]
    fitting = [node for node in fitting if node.scale_up_gpus <= node.gpus_per_node]
    return max(
        fitting,
        key=lambda node: (
            node.gpus_per_node,
            earliest_day(node.price.date) if node.price else date.min,
        ),
        default=None,
    )
