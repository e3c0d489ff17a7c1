"""What one message or memory line says, whatever program printed it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from planner.diagnose.sizes import Size
from planner.units import GIB, KIB

Fact = int | float | str

MOST_PROCESS_BYTES: Final = KIB * GIB
"""More than any card has: drivers that can't tell print all ones (WSL, Windows)."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process on the card.

    Attributes:
        pid: Its number as printed; in a container it may be one of the host.
        size: What it holds; None where the driver can't tell.
    """

    pid: int
    size: Size | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One message, or one line of figures.

    Attributes:
        form: Which text it is: program and variant, such as `torch_2_2`.
        failure: Whether it says that something failed.
        sizes: Figures in bytes by name (`request`, `total`, `free`, `allocated`, `reserved`, `unallocated`, `own`,
            ...), in the order of the text.
        facts: Everything else by name.
        processes: Other processes it names.
        device: The card, as numbered by the program.
        rank: The rank that printed it.
        line: Line of the text it begins in, from 1.
        count: How often the same was said.
    """

    form: str
    failure: bool
    sizes: tuple[tuple[str, Size], ...] = ()
    facts: tuple[tuple[str, Fact], ...] = ()
    processes: tuple[Process, ...] = ()
    device: int | None = None
    rank: int | None = None
    line: int = 0
    count: int = 1

    def size(self, name: str) -> Size | None:
        """A figure, None where the text has none."""
        return next((size for key, size in self.sizes if key == name), None)

    def bytes(self, name: str) -> int | None:
        """A figure in bytes, None where the text has none."""
        found = self.size(name)
        return None if found is None else found.bytes

    def fact(self, name: str) -> Fact | None:
        """A fact, None where the text has none."""
        return next((value for key, value in self.facts if key == name), None)

    def number(self, name: str) -> float | None:
        """A fact that is a number."""
        found = self.fact(name)
        return None if isinstance(found, str) else found


def known(sizes: Mapping[str, Size | None]) -> tuple[tuple[str, Size], ...]:
    """The figures that are there."""
    return tuple((name, size) for name, size in sizes.items() if size is not None)


def facts(**values: Fact | None) -> tuple[tuple[str, Fact], ...]:
    """The facts that are there."""
    return tuple((name, value) for name, value in values.items() if value is not None)


def integer(text: str | None) -> int | None:
    """A whole number that may have thousands separated."""
    digits = (text or "").replace(",", "")
    return int(digits) if digits.isdecimal() and len(digits) < 19 else None


def decimal(text: str | None) -> float | None:
    """A number with a fraction."""
    try:
        return float(text) if text else None
    except ValueError:
        return None


def largest(sizes: Iterable[Size | None]) -> Size | None:
    """The largest of the figures that are there."""
    return max((size for size in sizes if size is not None), key=lambda size: size.bytes, default=None)
