"""Which raw prices are prices: a number that can be one, for a card that is known, near what was known before."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hardware_db.offer_rows import MAX_USD_PER_GPU_HOUR, MAX_USD_PER_HOUR, MIN_USD_PER_GPU_HOUR
from hardware_db.refresh.types import MOST_EXAMPLES, KeptOut, RawPrice, Reading
from planner.prices import Offer

FAR_TIMES: Final = 5.0
"""A price this many times the known one of the same machine, or one over it, is a slip and no change of price."""
SPOT_LEAST_FRAC: Final = 0.02
"""Spot prices fall further; of the known price on demand."""
PLAIN: Final = {"rtx": "", "nvidia": "", "geforce": "", "tesla": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the shipped table tells of machines and of the names of cards.

    Attributes:
        machines: Offers by provider and instance type.
        names: Card ids by provider and simplified name; `""` as provider for any.
    """

    machines: Mapping[tuple[str, str], Offer]
    names: Mapping[tuple[str, str], frozenset[str]]


def known_of(offers: Iterable[Offer]) -> Known:
    """The shipped offers by machine, and the names of cards they use."""
    machines: dict[tuple[str, str], Offer] = {}
    names: dict[tuple[str, str], set[str]] = {}
    for offer in offers:
        if offer.gpu_id is None:
            continue
        key = (offer.provider, offer.instance_type.lower())
        if key not in machines or machines[key].usd_per_hour is None:
            machines[key] = offer
        for provider in (offer.provider, ""):
            names.setdefault((provider, simple(offer.gpu_name)), set()).add(offer.gpu_id)
    return Known(machines=machines, names={key: frozenset(ids) for key, ids in names.items()})


def simple(name: str) -> str:
    """A card's name without brand, case and signs."""
    text = "".join(c for c in name.lower() if c.isalnum())
    for word, other in PLAIN.items():
        text = text.replace(word, other)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    price: RawPrice
    usd: float
    gpu_id: str
    gpu_name: str
    count: float
    like: Offer | None


def judged(
    reading: Reading, known: Known, *, day: str, source: str
) -> tuple[tuple[Offer, ...], tuple[KeptOut, ...], int]:
    """Offers of a reading, what is kept out by reason, and how many rows are dearer regions of the same.

    Args:
        reading: What a source held.
        known: The shipped table.
        day: The date of the offers.
        source: Their source, as a text for people.
    """
    rejected = list(reading.kept_out)
    best: dict[tuple[str, str, bool], _Judged] = {}
    dearer = 0
    for price in reading.prices:
        found = _judge(price, known)
        if isinstance(found, tuple):
            rejected.append((found[0], _name(price), found[1]))
            continue
        key = (price.provider, price.instance_type, price.spot)
        dearer += key in best
        if key not in best or found.usd < best[key].usd:
            best[key] = found
    return _offers(best, day, source), _by_reason(rejected), dearer


def _judge(price: RawPrice, known: Known) -> _Judged | tuple[str, str]:
    """The price with its card, or the reason it is none and what stood there."""
    usd = _number(price.price)
    if price.currency not in ("", "USD"):
        return "currency", price.currency
    if price.unit:
        return "unit", price.unit
    if usd is None:
        return "not_a_number", str(price.price)[:40]
    if usd <= 0:
        return "not_above_zero", f"{usd:g}"
    like = known.machines.get((price.provider, price.instance_type.lower()))
    card = _card(price, like, known)
    if card is None:
        return "unknown_card", price.gpu_name or "\u2013"
    gpu_id, gpu_name, count = card
    each = usd / count
    if usd > MAX_USD_PER_HOUR or not MIN_USD_PER_GPU_HOUR <= each <= MAX_USD_PER_GPU_HOUR:
        return "absurd", f"{usd:g}"
    before = None if like is None else like.usd_per_hour
    if before is not None and not _near(usd, before, spot=price.spot):
        return "far_from_known", f"{usd:g} / {before:g}"
    return _Judged(price=price, usd=usd, gpu_id=gpu_id, gpu_name=gpu_name, count=count, like=like)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _card(price: RawPrice, like: Offer | None, known: Known) -> tuple[str, str, float] | None:
    """Card, its name and how many: of the same machine in the shipped table, else by the card's name."""
    if like is not None and like.gpu_id is not None and like.gpu_count:
        return like.gpu_id, like.gpu_name, like.gpu_count
    count = price.gpu_count
    if not price.gpu_name or count is None or not count > 0:
        return None
    name = simple(price.gpu_name)
    ids = known.names.get((price.provider, name)) or known.names.get(("", name)) or frozenset()
    return (next(iter(ids)), price.gpu_name, count) if len(ids) == 1 else None


def _near(usd: float, before: float, *, spot: bool) -> bool:
    least = before * SPOT_LEAST_FRAC if spot else before / FAR_TIMES
    return least <= usd <= before * FAR_TIMES


def _name(price: RawPrice) -> str:
    return f"{price.instance_type}, {price.region}"


def _offers(best: Mapping[tuple[str, str, bool], _Judged], day: str, source: str) -> tuple[Offer, ...]:
    """One offer a machine and region: the price on demand, and the spot price where it is of the same region."""
    made: dict[tuple[str, str, str], Offer] = {}
    for found in best.values():
        price = found.price
        key = (price.provider, price.instance_type, price.region)
        offer = made.get(key) or _offer(found, day, source)
        if price.spot:
            made[key] = replace(offer, spot_usd_per_hour=found.usd)
        else:
            made[key] = replace(offer, usd_per_hour=found.usd, usd_per_gpu_hour=found.usd / found.count)
    return tuple(made.values())


def _offer(found: _Judged, day: str, source: str) -> Offer:
    price, like = found.price, found.like
    return Offer(
        provider=price.provider,
        instance_type=price.instance_type,
        gpu_name=found.gpu_name,
        gpu_id=found.gpu_id,
        gpu_count=found.count,
        gpu_memory_gib=None if like is None else like.gpu_memory_gib,
        gpu_frac=None if like is None else like.gpu_frac,
        vcpus=None if like is None else like.vcpus,
        ram_gib=None if like is None else like.ram_gib,
        region=price.region,
        price_kind="on_demand",
        usd_per_hour=None,
        spot_usd_per_hour=None,
        usd_per_gpu_hour=None,
        date=day,
        source=source,
    )


def _by_reason(rejected: Sequence[tuple[str, str, str]]) -> tuple[KeptOut, ...]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for code, name, given in rejected:
        groups.setdefault(code, []).append((name, given))
    return tuple(
        KeptOut(code=code, count=len(rows), examples=tuple(rows[:MOST_EXAMPLES]))
        for code, rows in groups.items()
    )
