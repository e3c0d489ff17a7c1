"""What was on the card: who held the bytes, and whether the printed figures add up to its capacity."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from planner.diagnose.record import Process, Record
from planner.diagnose.sizes import Size, total
from planner.units import GIB

CLOSE_BYTES: Final = GIB // 10
"""Processes and free memory are read one after the other; they part by up to this much."""


DRIVER_FRAC: Final = 0.05
"""The most that NVIDIA's driver keeps for itself (R510 and later): used and free are less than the total."""


class Basis(StrEnum):
    """Where a layer's size comes from."""

    PRINTED = "printed"
    PROCESS_REST = "process_rest"
    CAPACITY_REST = "capacity_rest"
    RESERVED_REST = "reserved_rest"


class Identity(StrEnum):
    """Whether free and used make up the capacity."""

    EQUAL = "equal"
    CLOSE = "close"
    OFF = "off"
    UNCHECKED = "unchecked"
    SPILLED = "spilled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One layer.

    Attributes:
        name: `allocated`, `unallocated`, `context`, `own`, `others`, `outside` (context and whoever else, where the
            text tells no process), `used`, `driver`, `unnamed` (held by somebody the text does not name), `free`.
        bytes: Its size; never below zero.
        basis: Printed, or what is left of what.
        printed: The figure as it stands in the text, empty where it is worked out.
    """

    name: str
    bytes: int
    basis: Basis = Basis.PRINTED
    printed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """The layers of one card.

    Attributes:
        held: From the innermost outwards, then what was free.
        total_bytes: Capacity as printed.
        identity: Whether they make up the capacity.
        residue_bytes: Capacity less free less every process; None where no process is told.
        tolerance_bytes: Rounding of the figures that were compared.
        own_inferred: One process was named, and its size says that it is the one that failed.
    """

    held: tuple[Held, ...]
    total_bytes: int | None
    identity: Identity
    residue_bytes: int | None = None
    tolerance_bytes: int = 0
    own_inferred: bool = False

    def bytes(self, name: str) -> int | None:
        """Size of a layer, None where it is not told."""
        return next((held.bytes for held in self.held if held.name == name), None)

    @property
    def used_bytes(self) -> int:
        """Everything but what was free."""
        return sum(held.bytes for held in self.held if held.name != "free")


def unallocated_of(record: Record) -> Size | None:
    """What the allocator kept without using it: as printed, or reserved less allocated."""
    printed = record.size("unallocated")
    if printed is not None:
        return printed
    reserved, allocated = record.size("reserved"), record.size("allocated")
    if reserved is None or allocated is None:
        return None
    rest = max(0, reserved.bytes - allocated.bytes)
    return Size(rest, reserved.tolerance_bytes + allocated.tolerance_bytes, "")


def own_of(record: Record) -> tuple[Size | None, tuple[Process, ...], bool]:
    """What the failing process held, the others, and whether that one was picked out by its size.

    In a container the process is listed under its number on the host, as if it were another.
    """
    own, others = record.size("own"), record.processes
    if own is not None or len(others) != 1 or others[0].size is None:
        return own, others, False
    held, live = others[0].size, record.size("allocated")
    if live is None:
        return None, others, False
    inner = total(live, *filter(None, [unallocated_of(record)]))
    is_own = held.bytes + held.tolerance_bytes + inner.tolerance_bytes >= inner.bytes > held.bytes // 2
    return (held, (), True) if is_own else (None, others, False)


def layers_of(record: Record) -> Layers | None:
    """The layers a record tells, None where it tells none."""
    if record.size("allocated") is not None:
        return _of_allocator(record)
    whole, free, used = record.size("total"), record.size("free"), record.size("used")
    if whole is None or (free is None and used is None):
        return None
    if free is None or used is None:
        return _of_one_figure(whole, free, used)
    held = [_printed("used", used)]
    gap = whole.bytes - free.bytes - used.bytes
    tolerance = total(whole, free, used).tolerance_bytes
    is_driver = record.form.startswith("nvidia_smi") and 0 < gap <= DRIVER_FRAC * whole.bytes
    if gap > tolerance:
        name = "driver" if is_driver else "unnamed"
        held.append(Held(name=name, bytes=gap, basis=Basis.CAPACITY_REST))
    return Layers(
        held=(*held, _printed("free", free)),
        total_bytes=whole.bytes,
        identity=Identity.UNCHECKED if is_driver else _identity(gap, tolerance),
        residue_bytes=gap,
        tolerance_bytes=tolerance,
    )


def _of_one_figure(whole: Size, free: Size | None, used: Size | None) -> Layers:
    held = [] if used is None else [_printed("used", used)]
    if free is not None:
        rest = max(0, whole.bytes - free.bytes)
        held = [Held(name="used", bytes=rest, basis=Basis.CAPACITY_REST), _printed("free", free)]
    return Layers(held=tuple(held), total_bytes=whole.bytes, identity=Identity.UNCHECKED)


def _of_allocator(record: Record) -> Layers:
    whole, free = record.size("total"), record.size("free")
    own, others, inferred = own_of(record)
    held = _inside(record)
    inner = sum(part.bytes for part in held)
    if own is not None:
        held.append(Held(name="context", bytes=max(0, own.bytes - inner), basis=Basis.PROCESS_REST))
    held += [
        Held(name="others", bytes=other.size.bytes, printed=other.size.printed)
        for other in others
        if other.size is not None
    ]
    if whole is None or free is None:
        return Layers(held=tuple(held), total_bytes=None, identity=Identity.UNCHECKED)
    parts = [part for part in (own, *(other.size for other in others)) if part is not None]
    tolerance = total(whole, free, *parts).tolerance_bytes
    gap = whole.bytes - free.bytes
    is_spilled = inner > whole.bytes
    if own is None:
        gap -= sum(part.bytes for part in held)
        if gap > 0:
            held.append(Held(name="outside", bytes=gap, basis=Basis.CAPACITY_REST))
        identity = Identity.SPILLED if is_spilled else Identity.UNCHECKED
        residue = None
    else:
        gap -= sum(part.bytes for part in parts)
        if gap > max(tolerance, CLOSE_BYTES):
            held.append(Held(name="unnamed", bytes=gap, basis=Basis.CAPACITY_REST))
        identity = Identity.SPILLED if is_spilled else _identity(gap, tolerance)
        residue = gap
    return Layers(
        held=(*held, _printed("free", free)),
        total_bytes=whole.bytes,
        identity=identity,
        residue_bytes=residue,
        tolerance_bytes=tolerance,
        own_inferred=inferred,
    )


def _inside(record: Record) -> list[Held]:
    """What the allocator holds: live blocks, and those it keeps unused."""
    live, cached = record.size("allocated"), unallocated_of(record)
    held = [] if live is None else [_printed("allocated", live)]
    if cached is not None and cached.printed:
        held.append(_printed("unallocated", cached))
    elif cached is not None:
        held.append(Held(name="unallocated", bytes=cached.bytes, basis=Basis.RESERVED_REST))
    return held


def _identity(gap: int, tolerance: int) -> Identity:
    if abs(gap) <= tolerance:
        return Identity.EQUAL
    return Identity.CLOSE if abs(gap) <= CLOSE_BYTES else Identity.OFF


def _printed(name: str, size: Size) -> Held:
    return Held(name=name, bytes=size.bytes, printed=size.printed)
