"""The card of a row of the question: one of the table, a size alone, or one that the user describes."""

from dataclasses import replace
from typing import Final

from planner.hardware import Gpu, PeakFlops, Tables, gpu_for, has_gpu, usable_bytes_rule
from planner.scenario import Device, Hardware, OwnCard
from planner.units import GB, MIB, gib_bytes

TERA: Final = 1e12
FABRIC_FORM: Final = "module, as described"
"""A card described with a link is one of those that the maker joins."""
OWN_SOURCE: Final = "described in the question"


def gpu_of(row: Device, tables: Tables) -> Gpu:
    """The card of a row, with the memory reading that the row may carry.

    Raises:
        UnknownGpuError: Neither described nor in the table.
    """
    if row.card is None:
        return gpu_for(row.gpu, tables, row.memory_bytes)
    described = own_gpu(row.gpu, row.card, tables)
    if row.memory_bytes is None:
        return described
    return replace(described, usable_bytes=row.memory_bytes, usable_source="given", usable_rule="given")


def is_known(row: Device, tables: Tables) -> bool:
    """Whether `gpu_of` finds the row's card."""
    if row.card is None:
        return has_gpu(row.gpu, tables)
    return row.card.like is None or row.card.like in tables.gpus


def gpu_at(index: int, hardware: Hardware, tables: Tables) -> Gpu:
    """The card of the device at an index, counted over all rows.

    Raises:
        IndexError: There are fewer devices.
    """
    left = index
    for row in hardware.devices:
        if left < row.count:
            return gpu_of(row, tables)
        left -= row.count
    raise IndexError(index)


def own_gpu(gpu_id: str, card: OwnCard, tables: Tables) -> Gpu:
    """A card as described; what is left out is that of the card it is like, else unknown.

    Usable memory follows the rule of the table's cards: the size on the box less what the driver keeps.

    Args:
        gpu_id: What the user calls it.
        card: The description.
        tables: The hardware tables.

    Raises:
        KeyError: The table has no card of the id in `like`.
    """
    base = Gpu(id=gpu_id, name=gpu_id) if card.like is None else tables.gpus[card.like]
    vendor = card.vendor or base.vendor
    size_bytes = gib_bytes(card.memory_gib)
    link = card.link_gb_per_s
    return replace(
        base,
        id=gpu_id,
        name=gpu_id,
        vendor=vendor,
        form_factor=base.form_factor if link is None else FABRIC_FORM,
        launch_date=None,
        memory_type=card.memory_type or base.memory_type,
        memory_nominal_gb=card.memory_gib,
        memory_nominal_bytes=size_bytes,
        usable_bytes=_usable_bytes(size_bytes, vendor, tables),
        usable_source="rule",
        usable_rule="usable_amd" if vendor == "AMD" else "usable_nominal",
        usable_recalled=False,
        bandwidth_bytes_per_s=_scaled(card.bandwidth_gb_per_s, GB, base.bandwidth_bytes_per_s),
        flops=_flops(card, base.flops),
        interconnect=base.interconnect if link is None else FABRIC_FORM,
        interconnect_bidir_bytes_per_s=_scaled(link, GB, base.interconnect_bidir_bytes_per_s),
        pcie_bytes_per_s=_scaled(card.pcie_gb_per_s, GB, base.pcie_bytes_per_s),
        tdp_w=base.tdp_w if card.power_w is None else card.power_w,
        devices_per_card=1,
        list_price=None,
        street_price=None,
        sources=(OWN_SOURCE,),
        recalled=(),
        notes=None,
    )


def _scaled(given: float | None, unit: float, other: float | None) -> float | None:
    return other if given is None else given * unit


def _flops(card: OwnCard, base: PeakFlops) -> PeakFlops:
    """Rates as described; fp16 runs at the rate of bf16 unless it is told."""
    half = card.bf16_tflops
    rates = {
        "bf16": _scaled(half, TERA, base.bf16),
        "fp16": _scaled(half if card.fp16_tflops is None else card.fp16_tflops, TERA, base.fp16),
        "fp32": _scaled(card.fp32_tflops, TERA, base.fp32),
        "fp8": _scaled(card.fp8_tflops, TERA, base.fp8),
        "fp4": _scaled(card.fp4_tflops, TERA, base.fp4),
    }
    return replace(base, **rates)


def _usable_bytes(size_bytes: int, vendor: str | None, tables: Tables) -> int:
    if vendor == "AMD":
        return size_bytes - round(tables.value("usable_amd_base_mib") * MIB)
    return usable_bytes_rule(
        size_bytes,
        base_bytes=tables.value("usable_nominal_base_mib") * MIB,
        reserve_frac=tables.value("usable_nominal_frac"),
    )
