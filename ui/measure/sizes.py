"""Sizes on the Measure page: as many decimals as a small model needs, the same for all figures of a result."""

from ui.numbers import DASH, MINUS, signed, whole
from ui.units import amount
from ui.words import Words


def decimals_for(largest_bytes: int | None) -> int:
    """Decimals that leave at least three digits of the largest figure."""
    size = amount(largest_bytes or 0)
    return 2 if size >= 1 else 3 if size >= 0.1 else 4


def size(size_bytes: int | None, decimals: int) -> str:
    """A size in the unit in force; an en dash where it is not known."""
    return DASH if size_bytes is None else f"{amount(size_bytes):,.{decimals}f}"


def part(size_bytes: int | None, decimals: int) -> str:
    """A size in a table, where a zero part is an en dash, too."""
    return size(size_bytes or None, decimals)


def gap(gap_bytes: int | None, decimals: int) -> str:
    """A difference with its sign; an en dash where it is not known."""
    return DASH if gap_bytes is None else signed(amount(gap_bytes), decimals)


def error(fraction: float | None) -> str:
    """A relative error with its sign and one decimal."""
    return DASH if fraction is None else f"{signed(fraction * 100, 1)}\u00a0%"


def unsigned_error(fraction: float) -> str:
    """A relative error without its sign."""
    return error(abs(fraction)).removeprefix("+").removeprefix(MINUS)


def duration(seconds: float, words: Words) -> str:
    """Seconds, or whole minutes from two on."""
    if seconds < 120:
        return words("measure.duration.seconds", n=whole(seconds))
    return words("measure.duration.minutes", n=whole(seconds / 60))
