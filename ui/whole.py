"""Counts in a number field.

A browser's field for whole numbers reads 1e3 as 1 and 3.7 as 3 without a word. So a count stands in a field for
real numbers, shown by `FORMAT`: 1e3 is a thousand there, and 3.7 stays 3.7 until whoever checks it says what is
allowed.
"""

from typing import Any, Final

FORMAT: Final = "%g"
"""Of the field: as few digits as tell the number."""
MOST: Final = 10.0**15
"""Beyond it a field for real numbers no longer tells one whole number from the next."""


def shown(value: Any) -> float | None:
    """A value of the question as the field takes it; None where it is no number.

    Args:
        value: Whatever stands there: a link or a file can bring anything.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(min(max(value, -1e300), 1e300))


def typed(value: float | None) -> int | float | None:
    """What was typed: an int where it is whole, else as it is, for a check to name."""
    if value is None:
        return None
    return int(value) if is_whole(value) else value


def is_whole(value: float | None) -> bool:
    """Whether a number is whole, and small enough to be told from its neighbours."""
    return value is not None and abs(value) <= MOST and float(value).is_integer()
