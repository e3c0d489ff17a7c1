"""Units. The only file with 1024 or 1e9 in it; everything else imports a name from here."""

from typing import TypeVar

KIB = 1024
MIB = 1024**2
GIB = 1024**3
GB = 1_000_000_000
"""A vendor's gigabyte: nominal figures, and sizes shown to who asks for GB."""

Number = TypeVar("Number", int, float)


def ceil_div(amount: int, parts: int) -> int:
    """Integer division rounded up. Works on NumPy integer arrays too."""
    return -(-amount // parts)


def round_up(amount: int, step: int) -> int:
    """The smallest multiple of ``step`` that is at least ``amount``. Works on NumPy integer arrays too."""
    return -(-amount // step) * step


def gib(amount_bytes: int | float) -> float:
    """Bytes as GiB (2**30)."""
    return amount_bytes / GIB


def gb(amount_bytes: int | float) -> float:
    """Bytes as GB (1e9)."""
    return amount_bytes / GB


def gib_bytes(amount_gib: int | float) -> int:
    """GiB (2**30) as whole bytes."""
    return round(amount_gib * GIB)


def mib_bytes(amount_mib: int | float) -> int:
    """MiB (2**20) as whole bytes."""
    return round(amount_mib * MIB)
