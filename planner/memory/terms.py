"""Sums of "bytes per element x elements per token", the form in which saved tensors are counted and shown."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from planner.ledger import ALWAYS, Category, Entry, Layer, Phase, entry_of

Terms = dict[str, float]
"""Bytes per element by the symbol of the width they multiply; the symbol ``""`` is a constant per token."""


class PerToken(NamedTuple):
    """A sum with its widths put in.

    Attributes:
        bytes: Bytes per token.
        text: The sum in symbols.
        symbols: Each width it names.
    """

    bytes: float
    text: str
    symbols: dict[str, int | float]


def summed(part: Mapping[str, float], widths: Mapping[str, float]) -> PerToken:
    """A sum of terms worked out."""
    return PerToken(per_token(part, widths), _text(tuple(part.items())), used(part, widths))


def add(*parts: Mapping[str, float]) -> Terms:
    """The sum of several terms."""
    total: Terms = {}
    for part in parts:
        for symbol, coefficient in part.items():
            total[symbol] = total.get(symbol, 0) + coefficient
    return total


def scaled(part: Mapping[str, float], factor: float) -> Terms:
    """The same terms `factor` times."""
    return {symbol: coefficient * factor for symbol, coefficient in part.items()}


def per_token(part: Mapping[str, float], widths: Mapping[str, float]) -> float:
    """Bytes per token: each coefficient times its width. Widths may be NumPy arrays."""
    total: float = 0
    for symbol, coefficient in part.items():
        total = total + (coefficient * widths[symbol] if symbol else coefficient)
    return total


def text(part: Mapping[str, float]) -> str:
    """The sum in symbols, such as ``16*h + 4*q - 2*v + 8``."""
    return _text(tuple(part.items()))


@lru_cache(maxsize=1000)
def _text(part: tuple[tuple[str, float], ...]) -> str:
    pieces = sorted(((symbol, c) for symbol, c in part if c), key=lambda piece: (piece[1] < 0, not piece[0]))
    shown = ""
    for symbol, c in pieces:
        size = number(abs(c)) if not symbol else symbol if abs(c) == 1 else f"{number(abs(c))}*{symbol}"
        sign = "-" if c < 0 else "+"
        shown += f" {sign} {size}" if shown else size if c > 0 else f"0 - {size}"
    return shown or "0"


def number(value: float) -> str:
    """A coefficient as it stands in a formula."""
    return str(int(value)) if value == int(value) else repr(value)


def exact(value: float) -> float:
    """A whole number as an `int`, any other as it is."""
    return int(value) if value == int(value) else value


def whole(amount: float) -> int:
    """Bytes rounded up. Products of whole numbers are exact; fractions come from interleaved pipelines only."""
    return int(-(-amount // 1))


def used(part: Mapping[str, float], widths: Mapping[str, float]) -> dict[str, int | float]:
    """The widths that the sum names."""
    return {symbol: widths[symbol] for symbol, c in part.items() if symbol and c}


def item(
    category: Category,
    name: str,
    amount: float,
    formula: str,
    symbols: Mapping[str, int | float],
    reference: str,
    *,
    phases: Iterable[Phase] = ALWAYS,
    layer: Layer = Layer.ALLOCATED,
    estimate: bool = False,
) -> Entry:
    """A ledger entry whose bytes are what its formula says."""
    alive = phases if isinstance(phases, frozenset) else frozenset(phases)
    values = (
        category,
        name,
        int(amount),
        alive,
        formula,
        tuple(symbols.items()),
        reference,
        layer,
        estimate,
        (),
    )
    return entry_of(values)
