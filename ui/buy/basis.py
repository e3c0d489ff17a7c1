"""What a build's figures are worked out for: the cards alone, or a whole machine; the two are never ranked unsaid."""

from collections.abc import Mapping, Sequence
from typing import Final

from ui.buy.columns import Column

FROM: Final[Mapping[str, tuple[str, ...]]] = {
    "price": ("price",),
    "power": ("power",),
    "running": ("power",),
    "month": ("price", "power"),
    "use": ("price", "power"),
    "owned": ("price", "power"),
}
"""Rows of the table whose figure comes from a build's price or power."""
TELLS_ITSELF: Final = frozenset({"price", "power"})
"""Rows whose cells say where their figure comes from."""


def is_alone(row: str, column: Column) -> bool:
    """Whether a figure counts the cards without the machine around them."""
    known = (getattr(column, name) for name in FROM.get(row, ()))
    return any(one is not None and one.how == "cards" for one in known)


def is_mixed(row: str, columns: Sequence[Column]) -> bool:
    """Whether figures of a row count unlike things."""
    return len({is_alone(row, one) for one in columns}) > 1
