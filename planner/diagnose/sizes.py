"""Printed sizes as whole bytes, with half of the last printed digit as tolerance."""

import re
from dataclasses import dataclass
from typing import Final

from planner.units import GB, GIB, KIB, MIB

UNITS: Final = {
    "": 1, "B": 1, "bytes": 1,
    "K": KIB, "KB": KIB, "KiB": KIB,
    "M": MIB, "MB": MIB, "MiB": MIB,
    "G": GIB, "GB": GIB, "GiB": GIB,
    "T": GIB * KIB, "TB": GIB * KIB, "TiB": GIB * KIB,
}  # fmt: skip
"""Every tool read here that prints KB, MB or GB means powers of 1024; `DECIMAL` is for the one that does not."""

DECIMAL: Final = {"B": 1, "KB": GB // 10**6, "MB": GB // 10**3, "GB": GB, "TB": GB * 10**3}
LARGEST_BYTES: Final = 2**60
AMOUNT: Final = r"\d{1,20}(?:\.\d{1,9})?(?:bytes|[KMGT]i?B|[GB])"
"""A number with its unit, no blank between; for text from which white space was taken out."""

_PARTS: Final = re.compile(r"(\d{1,20})(?:\.(\d{1,9}))?(bytes|[KMGT]?i?B|[KMGT])?")


@dataclass(frozen=True, slots=True)
class Size:
    """A size as it was printed.

    Attributes:
        bytes: Nearest whole number of bytes.
        tolerance_bytes: The true size is at most this far away: half of the last printed digit, rounded up.
        printed: Number and unit as they stand in the text, without the blank.
    """

    bytes: int
    tolerance_bytes: int
    printed: str


def amount(name: str) -> str:
    """A named group of a pattern that matches a size."""
    return f"(?P<{name}>{AMOUNT})"


def size(printed: str, unit: str = "", *, decimal: bool = False) -> Size | None:
    """The size that a text names.

    Args:
        printed: A number, with its unit unless `unit` is given, no blank between.
        unit: The unit of a number that has none itself.
        decimal: Whether GB is 1e9.

    Returns:
        None where it is no size, or larger than any memory.
    """
    parts = _PARTS.fullmatch(printed)
    if parts is None:
        return None
    whole, fraction, own = parts[1], parts[2] or "", parts[3]
    scale = (DECIMAL if decimal else UNITS).get(own or unit)
    if scale is None:
        return None
    step = 10 ** len(fraction)
    amount_bytes = (2 * int(whole + fraction) * scale + step) // (2 * step)
    tolerance = 0 if scale == 1 else -(-scale // (2 * step))
    if amount_bytes > LARGEST_BYTES:
        return None
    return Size(amount_bytes, tolerance, printed if own else printed + unit)


def total(*sizes: Size) -> Size:
    """The sum of several sizes, with the sum of their tolerances."""
    return Size(
        sum(part.bytes for part in sizes),
        sum(part.tolerance_bytes for part in sizes),
        "+".join(part.printed for part in sizes),
    )
