"""Prices and their dates as text."""

import re
from functools import cache
from typing import Final

from planner.hardware import Gpu
from ui import answers
from ui.cost.rows import Row
from ui.names import card_name
from ui.numbers import TIMES, whole
from ui.words import Words

CENTS_BELOW_USD: Final = 10
_FORM: Final = re.compile(r"\b(Instinct|SXM\d?|PCIe|HGX|Blackwell|Workstation|Server|NVL72|per GPU)\b|[()]")
_SIZE: Final = re.compile(r"\b\d+ ?GB\b")


def usd(amount: float) -> str:
    """Dollars, with cents only below ten."""
    return f"${amount:,.2f}" if amount < CENTS_BELOW_USD else f"${amount:,.0f}"


def usd_cents(amount: float) -> str:
    """Dollars with cents: prices for one card."""
    return f"${amount:,.2f}"


def usd_small(amount: float) -> str:
    """Dollars with as many digits as small prices need: those of a million tokens."""
    return usd(amount) if amount >= 1 else f"${amount:.3f}"


def day(text: str, words: Words) -> str:
    """An ISO date or prefix as people write it; what is not told is left out."""
    year, *rest = text.split("-")
    if not rest:
        return words("cost.date.year", year=year)
    month = words(f"cost.month.m{rest[0]}")
    if len(rest) == 1:
        return words("cost.date.month", month=month, year=year)
    return words("cost.date.day", day=int(rest[1]), month=month, year=year)


def cards_text(count: int, gpu: Gpu) -> str:
    """`6 × H200`: the shortest name that no card of another size shares."""
    return f"{whole(count)} {TIMES} {short_card(gpu)}"


def job_text(row: Row) -> str:
    """The cards a row's job runs on."""
    return "" if row.gpu is None or row.rented is None else cards_text(row.rented.used, row.gpu)


def short_card(gpu: Gpu) -> str:
    """A card's name without form factor; its size stays where another card of that name has another one.

    A card that the user describes is called what the user calls it.
    """
    if gpu.id not in answers.tables().gpus:
        return gpu.name
    bare = bare_name(gpu.name)
    return bare if len(_sizes()[bare]) == 1 else _squeezed(_FORM.sub(" ", card_name(gpu.name)))


def bare_name(name: str) -> str:
    """A card's name without form factor and size."""
    return _squeezed(_SIZE.sub(" ", _FORM.sub(" ", card_name(name))))


def _squeezed(text: str) -> str:
    return " ".join(text.split())


@cache
def _sizes() -> dict[str, frozenset[float | None]]:
    found: dict[str, set[float | None]] = {}
    for gpu in answers.tables().gpus.values():
        found.setdefault(bare_name(gpu.name), set()).add(gpu.memory_nominal_gb)
    return {name: frozenset(sizes) for name, sizes in found.items()}
