"""Widths of columns in tables that sort, from what stands in them: their canvas cuts off what does not fit."""

from collections.abc import Iterable
from typing import Any, Final
from unicodedata import east_asian_width

PADDING_PX: Final = 20
LATIN_PX: Final = 5.7
"""Of a usual letter at the table's 12.25 px, capitals among them."""
WIDE_PX: Final = 12.3
LEAST_PX: Final = 66
MOST_PX: Final = 250


def column_width(head: str, cells: Iterable[Any], most: int = MOST_PX) -> int:
    """Pixels that hold the head and the longest cell.

    Args:
        head: Name of the column.
        cells: Its values; what is no text is left out.
        most: Wider it never gets: a person scrolls to the right sooner than past a sentence.
    """
    longest = max(map(_text_px, [head, *(cell for cell in cells if isinstance(cell, str))]))
    return min(max(round(longest) + PADDING_PX, LEAST_PX), most)


def _text_px(text: str) -> float:
    return sum(WIDE_PX if east_asian_width(char) in "WF" else LATIN_PX for char in text)
