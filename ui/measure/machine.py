"""What this machine can measure on, and its cards as rows of the question. Loads no PyTorch."""

import importlib.metadata
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from planner.units import GIB, MIB
from profiler.documents import DeviceKind
from profiler.host_memory import available_bytes
from profiler.machine import Machine, MachineDevice, machine_devices
from profiler.nvml import Nvml

CPU: Final = "cpu"
ROWS: Final = "hardware.devices"
TAKEN_BY_OTHERS_BYTES: Final = 512 * MIB
"""Less in use is a display's or the driver's own, and comes and goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where a step can run.

    Attributes:
        key: Key of the device: `cpu`, or the driver's id of a card.
        kind: What the worker is told.
        name: The driver's name, empty for the processor.
        total_bytes: In all, None if not known.
        free_bytes: Left now, None if not known.
    """

    key: str
    kind: DeviceKind
    name: str = ""
    total_bytes: int | None = None
    free_bytes: int | None = None

    @property
    def taken_bytes(self) -> int | None:
        """What other processes hold, None if not known or too little to speak of."""
        if self.total_bytes is None or self.free_bytes is None:
            return None
        taken = self.total_bytes - self.free_bytes
        return taken if taken >= TAKEN_BY_OTHERS_BYTES else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """This machine as the page sees it.

    Attributes:
        spots: Where a step can run, best first; the processor is always the last.
        cards: What the driver says.
        torch: Version of PyTorch, empty where it is not installed.
        no_cuda: Why no card can be used: a reason of the driver, or `torch_without_cuda`; empty if one can.
    """

    spots: tuple[Spot, ...]
    cards: Machine
    torch: str
    no_cuda: str

    def spot(self, key: str | None) -> Spot:
        """The spot of a key; the best one where the key is not, or no longer, known."""
        return next((spot for spot in self.spots if spot.key == key), self.spots[0])


@cache
def nvml() -> Nvml:
    """The driver's library, one for the process."""
    return Nvml()


def torch_version() -> str:
    """Version of the installed PyTorch without loading it, empty if there is none."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""


def look() -> Here:
    """Read the machine. Never raises for what it lacks."""
    cards = machine_devices(nvml())
    torch = torch_version()
    processor = Spot(key=CPU, kind="cpu", free_bytes=available_bytes())
    no_cuda = cards.reason
    if cards.devices and torch.endswith("+cpu"):
        no_cuda = "torch_without_cuda"
    if not cards.devices or no_cuda:
        return Here(spots=(processor,), cards=cards, torch=torch, no_cuda=no_cuda or "no_device")
    return Here(spots=(_first(cards.devices[0]), processor), cards=cards, torch=torch, no_cuda="")


def _first(device: MachineDevice) -> Spot:
    """The card that a new CUDA process takes by itself."""
    return Spot(
        key=device.uuid or "cuda",
        kind="cuda",
        name=device.label,
        total_bytes=device.memory_bytes,
        free_bytes=device.free_bytes,
    )


def hardware_rows(cards: Machine) -> list[dict[str, Any]]:
    """The machine's cards as rows of `hardware.devices`: equal neighbours are one row.

    A card that the tables do not have goes by its size, and one of unknown size as unknown. What others hold
    is put in only where it is more than a display's share.
    """
    rows: list[dict[str, Any]] = []
    for device in cards.devices:
        row = _row(device)
        if rows and {**rows[-1], "count": 1} == row:
            rows[-1]["count"] += 1
        else:
            rows.append(row)
    return rows


def _row(device: MachineDevice) -> dict[str, Any]:
    size, free = device.memory_bytes, device.free_bytes
    by_size = "unknown" if size is None else f"generic-{max(1, round(size / GIB))}gb"
    row: dict[str, Any] = {"gpu": device.gpu_id or by_size, "count": 1}
    if size is not None:
        row["memory_bytes"] = size
        if free is not None and size - free >= TAKEN_BY_OTHERS_BYTES:
            row["free_bytes"] = free
    return row
