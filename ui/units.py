"""The unit sizes are shown in: GiB (2**30), or GB (1e9) where the user prefers it.

It holds for one run of a page and is set before anything is drawn, so figures and the words beside them
agree. A thread that sets nothing, such as a download being written, speaks GiB.
"""

from contextvars import ContextVar
from enum import StrEnum
from typing import Final

from planner.units import gb, gib


class Unit(StrEnum):
    """A unit of memory, by its symbol."""

    GIB = "GiB"
    GB = "GB"


_CURRENT: Final[ContextVar[Unit]] = ContextVar("unit", default=Unit.GIB)


def use(unit: Unit) -> None:
    """Show sizes in this unit from here on, in this run."""
    _CURRENT.set(unit)


def current() -> Unit:
    """The unit in force."""
    return _CURRENT.get()


def amount(amount_bytes: int | float) -> float:
    """Bytes in the unit in force: what every figure and axis shows."""
    return gib(amount_bytes) if current() is Unit.GIB else gb(amount_bytes)
