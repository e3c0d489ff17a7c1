"""The table of cards: columns, ranges, and one `Gpu` a line."""

import re
from collections.abc import Mapping
from pathlib import Path

from hardware_db.cells import Row, read_rows
from hardware_db.usable import Memory, usable
from planner.hardware import PEAK_DTYPES, Constant, Gpu, PeakFlops
from planner.units import GB, gib_bytes

GPU_COLUMNS = (
    "id",
    "name",
    "vendor",
    "arch",
    "form_factor",
    "launch_date",
    "memory_gb",
    "devices_per_card",
    "unified_memory",
    "ecc_inline",
    "memory_cuda_mib",
    "memory_cuda_kind",
    "memory_smi_mib",
    "memory_smi_kind",
    "memory_type",
    "bandwidth_gbps",
    "fp32_tflops",
    "tf32_tflops",
    "fp16_tflops",
    "bf16_tflops",
    "fp8_tflops",
    "int8_tops",
    "fp4_tflops",
    "compute_capability",
    "interconnect",
    "interconnect_gbps",
    "pcie",
    "pcie_gbps_per_dir",
    "tdp_w",
    "list_price_usd",
    "list_price_date",
    "list_price_source",
    "street_price_usd",
    "street_price_date",
    "street_price_source",
    "spec_source",
    "memory_source",
    "recalled",
    "notes",
)

VENDORS = ("NVIDIA", "AMD", "Apple", "Intel", "Google", "AWS", "Huawei")
RECALLED_GROUPS = (
    "specs",
    "memory",
    "flops",
    "interconnect",
    "memory_cuda",
    "memory_smi",
    "list_price",
    "street_price",
)

MAX_PRICE_USD = 100_000
MAX_MEMORY_GB = 1_000
MAX_MEMORY_MIB = 1_000_000
MAX_TFLOPS = 50_000
MAX_BANDWIDTH_GBPS = 30_000
_TERA = 1e12
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_CAPABILITY = re.compile(r"(\d{1,2})\.(\d)")


def read_gpus(path: Path, constants: Mapping[str, Constant]) -> dict[str, Gpu]:
    """Every card by id, in file order.

    Raises:
        DataError: A cell is not allowed, an id stands twice, or a source, a date or a mark is missing.
    """
    gpus: dict[str, Gpu] = {}
    for row in read_rows(path, GPU_COLUMNS):
        gpu = _gpu(row, constants)
        if gpu.id in gpus:
            raise row.error("id", "an id that stands once")
        gpus[gpu.id] = gpu
    return gpus


def memory_of(row: Row) -> Memory:
    """The memory columns of a line, per device."""
    devices = row.integer("devices_per_card", 1, 8)
    return Memory(
        vendor=row.choice("vendor", VENDORS),
        nominal_bytes=gib_bytes(row.number("memory_gb", 1, MAX_MEMORY_GB) / devices),
        unified=row.flag("unified_memory"),
        inline_ecc=row.flag("ecc_inline"),
        cuda_mib=row.optional_number("memory_cuda_mib", 256, MAX_MEMORY_MIB),
        smi_mib=row.optional_number("memory_smi_mib", 256, MAX_MEMORY_MIB),
    )


def _gpu(row: Row, constants: Mapping[str, Constant]) -> Gpu:
    if not _ID.fullmatch(row.text("id")):
        raise row.error("id", "lowercase letters and digits joined by single hyphens")
    devices = row.integer("devices_per_card", 1, 8)
    memory = memory_of(row)
    seen = usable(memory, constants)
    recalled = _recalled(row)
    link_gbps = row.optional_number("interconnect_gbps", 1, 10_000)
    pcie_gbps = row.optional_number("pcie_gbps_per_dir", 1, 256)
    tdp_w = row.optional_number("tdp_w", 5, 3_000)
    return Gpu(
        id=row.text("id"),
        name=row.text("name"),
        vendor=memory.vendor,
        arch=row.text("arch"),
        form_factor=row.text("form_factor"),
        launch_date=row.day("launch_date") if row.optional_text("launch_date") else None,
        memory_type=row.text("memory_type"),
        memory_nominal_gb=row.number("memory_gb", 1, MAX_MEMORY_GB) / devices,
        memory_nominal_bytes=memory.nominal_bytes,
        usable_bytes=seen.usable_bytes,
        usable_source=seen.source,
        usable_rule=seen.rule,
        usable_recalled=_usable_recalled(seen.rule, recalled),
        bandwidth_bytes_per_s=row.number("bandwidth_gbps", 5, MAX_BANDWIDTH_GBPS) * GB / devices,
        flops=_flops(row, devices),
        compute_capability=_capability(row),
        interconnect=row.optional_text("interconnect"),
        interconnect_bidir_bytes_per_s=None if link_gbps is None else link_gbps * GB / devices,
        pcie=row.optional_text("pcie"),
        pcie_bytes_per_s=None if pcie_gbps is None else pcie_gbps * GB,
        tdp_w=None if tdp_w is None else tdp_w / devices,
        unified_memory=memory.unified,
        devices_per_card=devices,
        list_price=row.price("list_price", MAX_PRICE_USD),
        street_price=row.price("street_price", MAX_PRICE_USD),
        sources=_sources(row),
        recalled=recalled,
        notes=row.optional_text("notes"),
    )


def _flops(row: Row, devices: int) -> PeakFlops:
    rates: dict[str, float | None] = {}
    for dtype in PEAK_DTYPES:
        tera = row.optional_number("int8_tops" if dtype == "int8" else f"{dtype}_tflops", 0.1, MAX_TFLOPS)
        rates[dtype] = None if tera is None else tera * _TERA / devices
    return PeakFlops(**rates)


def _capability(row: Row) -> tuple[int, int] | None:
    text = row.optional_text("compute_capability")
    if text is None or row.text("vendor") != "NVIDIA":
        return None
    match = _CAPABILITY.fullmatch(text)
    if match is None:
        raise row.error("compute_capability", "major.minor, such as 9.0")
    return int(match[1]), int(match[2])


def _sources(row: Row) -> tuple[str, ...]:
    parts = [part.strip() for part in row.text("spec_source").split(";")]
    memory = row.optional_text("memory_source")
    return (*parts, memory) if memory else tuple(parts)


def _recalled(row: Row) -> tuple[str, ...]:
    """The marks of a line, which must agree with what its sources say."""
    groups = tuple((row.optional_text("recalled") or "").split())
    for group in groups:
        if group not in RECALLED_GROUPS:
            raise row.error("recalled", f"any of: {', '.join(RECALLED_GROUPS)}")
    for kind in ("memory_cuda", "memory_smi"):
        filled = row.optional_text(f"{kind}_mib") is not None
        said = row.choice(f"{kind}_kind", ("read", "recalled") if filled else ("",))
        if (said == "recalled") != (kind in groups):
            raise row.error("recalled", f"{kind} exactly where {kind}_kind is recalled")
    spec_groups = ("specs", "memory", "flops", "interconnect")
    if ("recalled" in row.text("spec_source")) != any(group in groups for group in spec_groups):
        raise row.error("recalled", "a mark exactly where spec_source says recalled")
    if row.optional_text("memory_cuda_mib") and row.optional_text("memory_source") is None:
        raise row.error("memory_source", "a source for memory_cuda_mib")
    return groups


def _usable_recalled(rule: str, recalled: tuple[str, ...]) -> bool:
    """Whether the figure that usable bytes start from was written from memory."""
    if rule == "runtime_total":
        return "memory_cuda" in recalled
    if rule == "usable_smi":
        return "memory_smi" in recalled
    return "specs" in recalled or "memory" in recalled
