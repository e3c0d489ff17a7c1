"""Memory counters of the device that the watched model stands on."""

import os
from typing import Any

import torch

Pair = tuple[int | None, int | None]
"""Allocated and reserved bytes."""


class HostCounters:
    """A processor has no allocator of its own; only the process's resident memory is known."""

    kind = "cpu"

    def now(self) -> Pair:
        """Allocated and reserved bytes."""
        return None, None

    def take_peak(self) -> Pair:
        """Highest since the last call."""
        return None, None


class CudaCounters:
    """The caching allocator of one CUDA device.

    Args:
        device: The device.
        keep_peaks: Don't reset the peaks, which the program may read itself.
    """

    kind = "cuda"

    def __init__(self, device: Any, *, keep_peaks: bool) -> None:
        self._device = device
        self._keep_peaks = keep_peaks

    def now(self) -> Pair:
        """Allocated and reserved bytes."""
        return self._read("current")

    def take_peak(self) -> Pair:
        """Highest since the last call; nothing is waited for, since the allocator counts on the host."""
        peak = self._read("peak")
        if not self._keep_peaks:
            torch.cuda.reset_peak_memory_stats(self._device)
        return peak

    def _read(self, what: str) -> Pair:
        stats: dict[str, Any] = torch.cuda.memory_stats_as_nested_dict(self._device)
        allocated, reserved = (
            stats.get(name, {}).get("all", {}).get(what) for name in ("allocated_bytes", "reserved_bytes")
        )
        return allocated, reserved


Counters = HostCounters | CudaCounters


def counters_of(model: Any, *, keep_peaks: bool) -> Counters:
    """The counters of the device that a model's first parameter is on."""
    first = next(iter(model.parameters()), None) if model is not None else None
    device = getattr(first, "device", None)
    if device is not None and device.type == "cuda":
        return CudaCounters(device, keep_peaks=keep_peaks)
    return HostCounters()


def resident_bytes() -> int | None:
    """Resident memory of this process where the system tells it in one read (Linux)."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  # microseconds count here
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
