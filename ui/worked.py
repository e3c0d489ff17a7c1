"""Formulas as they are read: what stands in the ledger as code, with its values and what each symbol means."""

from collections.abc import Callable, Sequence
from html import escape

from ui.numbers import MINUS, symbol_value
from ui.words import Safe

DOT = "\N{MIDDLE DOT}"


def formula_html(text: str) -> Safe:
    """A formula with a dot for every product and a true minus; `ceil` and the like stay."""
    return Safe(f"<code>{escape(text.replace('*', DOT).replace('-', MINUS))}</code>")


def values_html(
    symbols: Sequence[tuple[str, int | float]], meaning: Callable[[str], str] = lambda _symbol: ""
) -> Safe:
    """The value of every symbol; what it means is shown by the mouse.

    Args:
        symbols: Names and values.
        meaning: Says what a name stands for, "" where that is not known.
    """
    return Safe(", ".join(_value(name, value, meaning(name)) for name, value in symbols))


def worked_html(
    text: str,
    symbols: Sequence[tuple[str, int | float]],
    *,
    between: str = "<br>",
    meaning: Callable[[str], str] = lambda _symbol: "",
) -> Safe:
    """A formula, then muted what is put into it."""
    values = values_html(symbols, meaning)
    return Safe(formula_html(text) + (f'{between}<span class="m values">{values}</span>' if values else ""))


def _value(name: str, value: int | float, meaning: str) -> str:
    text = f"{escape(name)} = {symbol_value(value)}"
    return f'<abbr title="{escape(meaning)}">{text}</abbr>' if meaning else text
