"""The device a step runs on, read through the driver before, during and after."""

import os
import platform
from typing import Any

import torch

from profiler.documents import DeviceKind, Remark
from profiler.nvml import Nvml, Reading, visible_devices


class Device:
    """CPU, or the first CUDA device.

    Args:
        kind: Which.
        nvml: The driver library, None for the real one.
    """

    def __init__(self, kind: DeviceKind, nvml: Nvml | None = None) -> None:
        self._kind = kind
        self._nvml = nvml or Nvml()
        self._remarks: list[Remark] = []
        self.uuid: str | None = None
        self.name = platform.processor() or platform.machine() or "CPU"
        self.driver = ""
        self.total_bytes: int | None = None
        self.before_bytes: int | None = None
        self.idle_bytes: int | None = None
        if kind == "cuda":
            self.driver = self._nvml.driver_version().value or ""
            self._find()
            self.before_bytes = self.read()[0]

    def open_context(self) -> None:
        """Make the CUDA context and read what it costs."""
        if self._kind != "cuda":
            return
        torch.ones(1, device="cuda").sum().item()
        self.name = torch.cuda.get_device_name()
        self.idle_bytes = self.read()[0]

    def read(self) -> tuple[int | None, int | None]:
        """Bytes in use on the whole device, and by this process; None = not known."""
        if self.uuid is None:
            return None, None
        memory = self._nvml.memory(self.uuid).value
        return memory.used_bytes if memory else None, self._nvml.process_bytes(self.uuid, os.getpid()).value

    def remarks(self) -> tuple[Remark, ...]:
        """What could not be read, and why."""
        return tuple(self._remarks)

    def _find(self) -> None:
        """The driver's id of CUDA's first device, and what can be read of it."""
        found = self._nvml.devices()
        if found.value is None:
            self._note("device", found)
            return
        visible = visible_devices(found.value)
        device = visible.devices[0] if visible.devices and visible.order_known else None
        if device is None or device.uuid.value is None:
            self._note("device", Reading(None, visible.reason or "order_not_known"))
            return
        self.uuid = device.uuid.value
        self.name = device.name.value or self.name
        self._note("memory", device.memory)
        self.total_bytes = device.memory.value.total_bytes if device.memory.value else None
        self._note("process", self._nvml.process_bytes(self.uuid, os.getpid()))

    def _note(self, what: str, reading: Reading[Any]) -> None:
        if reading.value is None and reading.reason not in {"pid_not_listed", "pid_namespace"}:
            self._remarks.append(Remark(code="not_read", params={"what": what, "reason": reading.reason}))
