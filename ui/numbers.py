"""Numbers as text, each rounded from bytes and never from a rounded figure; negative ones carry U+2212.

Sizes are in the unit in force (`ui.units`): GiB unless the user asked for GB.
"""

from typing import Final

from planner.units import gib
from ui.units import amount

MINUS: Final = "\u2212"
DASH: Final = "\u2013"
TIMES: Final = "\u00d7"
NARROW: Final = "\u202f"


def gib1(amount_bytes: int | float) -> str:
    """A size with one decimal: sentences, labels, the strip."""
    return _plain(amount(amount_bytes), 1)


def gib2(amount_bytes: int | float) -> str:
    """A size with two decimals: tables. A zero part is an en dash."""
    return _plain(amount(amount_bytes), 2) if amount_bytes else DASH


def gib_as_typed(amount_bytes: int | float) -> str:
    """GiB with one decimal whatever the unit in force: beside a field that is filled in in GiB."""
    return _plain(gib(amount_bytes), 1)


def signed_gib(amount_bytes: int | float, decimals: int = 1) -> str:
    """A size with its sign always shown; what rounds to zero has none."""
    return signed(amount(amount_bytes), decimals)


def signed(value: float, decimals: int = 1) -> str:
    """A difference with its sign always shown; what rounds to zero has none."""
    text = f"{abs(value):,.{decimals}f}"
    if not float(text.replace(",", "")):
        return text
    return f"{'+' if value > 0 else MINUS}{text}"


def as_typed(value: float) -> str:
    """A number that somebody typed, as it is."""
    return f"{value:,.15g}".replace("-", MINUS, 1)


def whole(number: int | float) -> str:
    """A whole number with thousands separated."""
    return _plain(number, 0)


def percent(fraction: float) -> str:
    """A share as a whole percentage."""
    return f"{_plain(fraction * 100, 0)}\u00a0%"


def small_percent(fraction: float) -> str:
    """A share as a percentage: a whole one, or with two digits that tell something where it is less than one."""
    if not 0 < fraction < 0.01:
        return percent(fraction)
    return f"{fraction * 100:.2g}\u00a0%"


def signed_percent(fraction: float) -> str:
    """A change as a whole percentage with its sign."""
    return f"{signed(fraction * 100, 0)}\u00a0%"


def short_tokens(tokens: int) -> str:
    """Tokens on an axis: 4k for 4096, 1M for 1048576, digits where it is no round number."""
    if tokens >= 1 << 20 and tokens % (1 << 20) == 0:
        return f"{tokens >> 20}M"
    if tokens >= 1 << 10 and tokens % (1 << 10) == 0:
        return f"{tokens >> 10}k"
    return whole(tokens)


def ranges(indices: tuple[int, ...]) -> str:
    """Positions with runs drawn together: `0, 3-5, 8` with an en dash."""
    parts: list[str] = []
    start = previous = indices[0]
    for index in (*indices[1:], None):
        if index is not None and index == previous + 1:
            previous = index
            continue
        parts.append(str(start) if start == previous else f"{start}{DASH}{previous}")
        if index is not None:
            start = previous = index
    return ", ".join(parts)


def symbol_value(value: int | float) -> str:
    """A value put into a formula: whole numbers with thousands separated, others with four digits."""
    if isinstance(value, int) or float(value).is_integer():
        return whole(value)
    return f"{value:.4g}"


def _plain(value: int | float, decimals: int) -> str:
    text = f"{abs(value):,.{decimals}f}"
    return f"{MINUS}{text}" if value < 0 and any(digit in "123456789" for digit in text) else text
