"""Counts of parameters and tokens as text, written as each language writes them and read in all of them.

English steps by thousands (8.03 B), Chinese by ten thousands (80.3亿); a locale file lists its steps as powers
of ten, those that it writes under `count.steps` and those that are only read under `count.read`.
"""

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Final

from ui.numbers import whole
from ui.words import Words, languages, words_for

MOST_DIGITS: Final = 18
_COUNT: Final = re.compile(r"(\d+(?:\.\d+)?) ?(\D*)", re.ASCII)


def short_count(number: int, words: Words) -> str:
    """Three significant digits and the step: 8.03 B, 80.3亿."""
    for step, power in steps(words("count.steps")):
        size = 10**power
        if number >= size:
            value = number / size
            decimals = 2 if value < 10 else 1 if value < 100 else 0
            return words("count.written", value=f"{value:.{decimals}f}", step=step)
    return whole(number)


def exact_count(number: int, words: Words) -> str:
    """A count as a person would type it, by its largest step where three decimals hold it: 1.5 B, 15亿."""
    for step, power in steps(words("count.steps")):
        value = Decimal(number).scaleb(-power)
        if value >= 1:
            exact = value == round(value, 3)
            return (
                words("count.written", value=f"{value.normalize():f}", step=step) if exact else whole(number)
            )
    return whole(number)


def read_count(text: str) -> int | None:
    """A count as typed, in any language: 4096, 1,000, 8k, 1.5 B, 70亿, 千亿.

    Returns:
        The count; None for what is no whole number, and for more than `MOST_DIGITS` digits.
    """
    plain = unicodedata.normalize("NFKC", text).strip().replace(",", "")
    known = _known()
    if plain in known and not plain.isascii():
        return int(10 ** known[plain])
    found = _COUNT.fullmatch(plain)
    if found is None or len(found[1]) > MOST_DIGITS:
        return None
    power = known.get(found[2].strip().casefold()) if found[2] else 0
    if power is None:
        return None
    value = Decimal(found[1]).scaleb(power)
    return int(value) if value == value.to_integral_value() and value < 10**MOST_DIGITS else None


def steps(text: str) -> Iterator[tuple[str, int]]:
    """The steps of a locale file, `B 9, M 6`, as they are listed: largest first."""
    for item in text.split(", "):
        step, _, power = item.rpartition(" ")
        yield step, int(power)


@cache
def _known() -> dict[str, int]:
    """Every step that any language writes or reads, with its power of ten."""
    listed = (words_for(code)(key) for code in languages() for key in ("count.steps", "count.read"))
    return {step.casefold(): power for text in listed for step, power in steps(text)}
