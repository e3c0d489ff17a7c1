"""How busy a card is, where the driver says: utilisation, power, clocks, PCIe and NVLink traffic. Nothing raises.

Each figure is asked for on its own, so a card that lacks one (a MIG instance its utilisation, a laptop its power)
still gives the others. NVLink counters only ever grow; a rate needs two looks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from planner.units import KIB
from profiler.nvml import Nvml, Reading
from profiler.report_parts import CardReading

PCIE_SENT: Final = 0
PCIE_RECEIVED: Final = 1
SM_CLOCK: Final = 1
MEMORY_CLOCK: Final = 2
NVLINK_SENT: Final = 138
"""`NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX`: payload of all links since the driver was loaded, in KiB (nvml.h)."""
NVLINK_RECEIVED: Final = 139
ALL_LINKS: Final = 0xFFFFFFFF
MAX_PLAUSIBLE_PERCENT: Final = 100
MAX_PLAUSIBLE_MHZ: Final = 20_000
MAX_PLAUSIBLE_MILLIWATTS: Final = 10_000_000
MAX_PLAUSIBLE_KIB_PER_S: Final = 2_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCounters:
    """NVLink counters of a card at a moment.

    Attributes:
        at_s: When.
        sent_bytes: So far, None if the card does not say.
        received_bytes: So far, None if the card does not say.
    """

    at_s: float
    sent_bytes: int | None = None
    received_bytes: int | None = None


def read_load(
    nvml: Nvml, uuid: str, at_s: float, before: LinkCounters | None = None
) -> tuple[CardReading, LinkCounters]:
    """Everything but memory, and the counters for the next look.

    Args:
        nvml: The driver library.
        uuid: The card.
        at_s: Moment of this look.
        before: Counters of the look before, None for the first.
    """
    handle = nvml.ask("nvmlDeviceGetHandleByUUID", uuid)
    now = LinkCounters(at_s=at_s)
    if handle.value is None:
        return CardReading(at_s=at_s), now

    def ask(name: str, *arguments: Any) -> Any:
        return nvml.ask(name, handle.value, *arguments).value

    busy = ask("nvmlDeviceGetUtilizationRates")
    sent, received = (_link_bytes(nvml, handle.value, which) for which in (NVLINK_SENT, NVLINK_RECEIVED))
    now = LinkCounters(at_s=at_s, sent_bytes=sent, received_bytes=received)
    power = _whole(ask("nvmlDeviceGetPowerUsage"), MAX_PLAUSIBLE_MILLIWATTS)
    reading = CardReading(
        at_s=at_s,
        gpu_frac=_share(getattr(busy, "gpu", None)),
        memory_frac=_share(getattr(busy, "memory", None)),
        power_w=None if power is None else power / 1000,
        sm_mhz=_whole(ask("nvmlDeviceGetClockInfo", SM_CLOCK), MAX_PLAUSIBLE_MHZ),
        memory_mhz=_whole(ask("nvmlDeviceGetClockInfo", MEMORY_CLOCK), MAX_PLAUSIBLE_MHZ),
        pcie_sent_bytes_per_s=_rate(ask("nvmlDeviceGetPcieThroughput", PCIE_SENT)),
        pcie_received_bytes_per_s=_rate(ask("nvmlDeviceGetPcieThroughput", PCIE_RECEIVED)),
        nvlink_sent_bytes_per_s=_growth(before, now, lambda counters: counters.sent_bytes),
        nvlink_received_bytes_per_s=_growth(before, now, lambda counters: counters.received_bytes),
    )
    return reading, now


def _link_bytes(nvml: Nvml, handle: Any, which: int) -> int | None:
    answer: Reading[Any] = nvml.ask("nvmlDeviceGetFieldValues", handle, [(which, ALL_LINKS)])
    if not answer.value:
        return None
    field = answer.value[0]
    if getattr(field, "nvmlReturn", 1) != 0:
        return None
    value = getattr(getattr(field, "value", None), "ullVal", None)
    return value * KIB if isinstance(value, int) and 0 <= value < 2**54 else None


def _growth(
    before: LinkCounters | None, now: LinkCounters, pick: Callable[[LinkCounters], int | None]
) -> int | None:
    if before is None or now.at_s <= before.at_s:
        return None
    first, last = pick(before), pick(now)
    if first is None or last is None or last < first:  # a reset counter tells nothing
        return None
    return round((last - first) / (now.at_s - before.at_s))


def _whole(value: Any, most: int) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= most else None


def _share(percent: Any) -> float | None:
    whole = _whole(percent, MAX_PLAUSIBLE_PERCENT)
    return None if whole is None else whole / 100


def _rate(kib_per_s: Any) -> int | None:
    whole = _whole(kib_per_s, MAX_PLAUSIBLE_KIB_PER_S)
    return None if whole is None else whole * KIB
