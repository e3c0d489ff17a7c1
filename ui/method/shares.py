"""Errors as percentages: the smaller, the more digits."""

from ui.numbers import MINUS


def share_text(value: float) -> str:
    """Two decimals below 1 %, one below 10 %, none above."""
    size = abs(value) * 100
    decimals = 2 if size < 1 else 1 if size < 10 else 0
    sign = MINUS if value < 0 and round(size, decimals) else ""
    return f"{sign}{size:,.{decimals}f}\u00a0%"


def signed_share(value: float) -> str:
    """The same with its sign always shown; what rounds to zero has none."""
    text = share_text(value)
    return f"+{text}" if value > 0 and text.strip("0.\u00a0%") else text
