"""Usable bytes of a card: a reading where there is one, else a rule whose numbers are in constants.toml.

Makers count device memory in GiB (an "80 GB" card holds 80 GiB). The driver keeps a base and a share of it,
and GDDR6 with ECC kept in the same memory loses a sixteenth before that. AMD keeps next to nothing. Memory
that is shared with the host is a limit set by the system.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from planner.hardware import Constant, UsableSource, usable_bytes_rule
from planner.units import MIB, gib_bytes, mib_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory figures of one device, as the table has them; None where a column is empty."""

    vendor: str
    nominal_bytes: int
    unified: bool
    inline_ecc: bool
    cuda_mib: float | None
    smi_mib: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usable:
    """Usable bytes, whether they were read, and by which rule."""

    usable_bytes: int
    source: UsableSource
    rule: str


def usable(memory: Memory, constants: Mapping[str, Constant]) -> Usable:
    """What a process can use in all on an idle device.

    In this order: the runtime's own total; for shared memory the system's share; the total of nvidia-smi less
    the driver's part; the nominal size less the driver's part.
    """
    if memory.cuda_mib is not None:
        return Usable(usable_bytes=mib_bytes(memory.cuda_mib), source="read", rule="runtime_total")
    if memory.unified and memory.vendor != "AMD":
        rule = _unified_rule(memory)
        return Usable(
            usable_bytes=int(memory.nominal_bytes * constants[rule].value), source="rule", rule=rule
        )
    if memory.smi_mib is not None:
        return _less_driver(mib_bytes(memory.smi_mib), "usable_smi", constants)
    if memory.vendor == "AMD":
        kept = round(constants["usable_amd_base_mib"].value * MIB)
        return Usable(usable_bytes=memory.nominal_bytes - kept, source="rule", rule="usable_amd")
    return _less_driver(visible_bytes(memory, constants), "usable_nominal", constants)


def _unified_rule(memory: Memory) -> str:
    if memory.vendor != "Apple":
        return "usable_unified_frac"
    return "usable_apple_small_frac" if memory.nominal_bytes <= gib_bytes(32) else "usable_apple_large_frac"


def visible_bytes(memory: Memory, constants: Mapping[str, Constant]) -> int:
    """Nominal bytes less what inline ECC takes."""
    return int(memory.nominal_bytes * (constants["usable_inline_ecc_frac"].value if memory.inline_ecc else 1))


def _less_driver(total_bytes: int, rule: str, constants: Mapping[str, Constant]) -> Usable:
    base_bytes = constants[f"{rule}_base_mib"].value * MIB
    kept_frac = constants[f"{rule}_frac"].value
    size = usable_bytes_rule(total_bytes, base_bytes=base_bytes, reserve_frac=kept_frac)
    return Usable(usable_bytes=size, source="rule", rule=rule)
