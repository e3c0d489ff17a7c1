"""What the NVIDIA driver says about the cards of this machine, through its management library (NVML).

Every answer is a `Reading`: a value, or None and a reason. Nothing here raises for what a machine lacks, and
nothing unknown is ever 0. All calls to the library go through `Nvml._call`.
"""

import importlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from planner.units import GIB
from profiler.host_memory import PROC

Value = TypeVar("Value")

REASONS: Final[dict[int, str]] = {
    1: "not_initialized",
    2: "invalid_argument",
    3: "not_supported",
    4: "no_permission",
    6: "not_found",
    9: "driver_not_loaded",
    12: "no_driver",
    13: "missing_symbol",
    15: "gpu_lost",
    16: "reset_required",
    18: "library_mismatch",
    20: "out_of_memory",
    21: "no_data",
    25: "version_mismatch",
}
"""NVML return codes (nvml.h, `nvmlReturn_t`) to stable reasons; any other is `driver_error`."""

NOT_INITIALIZED: Final = 1
MAX_PLAUSIBLE_BYTES: Final = 65_536 * GIB
"""More is no size: WSL drivers answer near 2**64 where they do not know."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[Value]):
    """A value, or None and why there is none.

    Attributes:
        value: What was read.
        reason: Stable code, empty where there is a value.
        detail: The library's own words.
    """

    value: Value | None
    reason: str = ""
    detail: str = ""

    def without_value(self) -> "Reading[Any]":
        """The same reason for another kind of value."""
        return Reading(None, self.reason, self.detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory of a device as the driver counts it.

    Attributes:
        total_bytes: All of it, less what the driver keeps for itself where it says so.
        used_bytes: In use by all processes.
        free_bytes: Left.
        reserved_bytes: What the driver keeps for itself, None where it does not tell it apart.
    """

    total_bytes: int
    used_bytes: int
    free_bytes: int
    reserved_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """A card, or a MIG instance of one.

    Attributes:
        index: Position among the driver's cards (PCI order); of the parent for a MIG instance.
        uuid: `GPU-...` or `MIG-...`.
        name: The driver's name.
        memory: See `Memory`.
        mig: It is a MIG instance.
        mig_enabled: It is a card cut into MIG instances, which cannot be used as a whole.
    """

    index: int
    uuid: Reading[str]
    name: Reading[str]
    memory: Reading[Memory]
    mig: bool = False
    mig_enabled: bool = False


class Nvml:
    """The library, loaded at the first question. Safe to use from any thread.

    Args:
        library: Stands in for the `pynvml` module; None loads it.
    """

    def __init__(self, library: Any | None = None) -> None:
        self._library = library
        self._initialized = False
        self._lock = threading.RLock()

    def driver_version(self) -> Reading[str]:
        """Version of the driver. As `nvidia-smi --query-gpu=driver_version`."""
        return _text(self._call("nvmlSystemGetDriverVersion"))

    def devices(self) -> Reading[tuple[DeviceInfo, ...]]:
        """Every card in the driver's order, each followed by its MIG instances. As `nvidia-smi -L`."""
        count = self._call("nvmlDeviceGetCount")
        if not isinstance(count.value, int):
            return count.without_value()
        found: list[DeviceInfo] = []
        for index in range(count.value):
            handle = self._call("nvmlDeviceGetHandleByIndex", index)
            if handle.value is None:
                lost: Reading[Any] = handle.without_value()
                found.append(DeviceInfo(index=index, uuid=lost, name=lost, memory=lost))
                continue
            found += self._card(index, handle.value)
        return Reading(tuple(found))

    def memory(self, uuid: str) -> Reading[Memory]:
        """Memory of the device with this UUID. As `nvidia-smi --query-gpu=memory.total,memory.used`."""
        handle = self._call("nvmlDeviceGetHandleByUUID", uuid)
        return handle.without_value() if handle.value is None else self._memory(handle.value)

    def process_bytes(self, uuid: str, pid: int) -> Reading[int]:
        """Memory of one process on the device. As `nvidia-smi --query-compute-apps=pid,used_memory`.

        In a container the driver lists the host's process ids: where none of those it lists is one here, the reason
        is `pid_namespace`, else `pid_not_listed`.
        """
        listed = self._listed(uuid)
        if listed.value is None:
            return listed.without_value()
        mine = [process for process in listed.value if getattr(process, "pid", None) == pid]
        if not mine:
            return Reading(None, _why_not_listed([getattr(process, "pid", None) for process in listed.value]))
        used = getattr(mine[0], "usedGpuMemory", None)
        if not isinstance(used, int) or not 0 < used < MAX_PLAUSIBLE_BYTES:
            return Reading(None, "not_available", str(used))
        return Reading(used)

    def processes(self, uuid: str) -> Reading[tuple[tuple[int, int | None], ...]]:
        """Process ids on the device as the driver numbers them, each with its bytes, None where it does not say."""
        listed = self._listed(uuid)
        if listed.value is None:
            return listed.without_value()
        found = []
        for process in listed.value:
            pid, used = getattr(process, "pid", None), getattr(process, "usedGpuMemory", None)
            if isinstance(pid, int):
                known = isinstance(used, int) and 0 < used < MAX_PLAUSIBLE_BYTES
                found.append((pid, used if known else None))
        return Reading(tuple(found))

    def ask(self, name: str, *arguments: Any) -> Reading[Any]:
        """Any other question to the library, by the name of its function."""
        return self._call(name, *arguments)

    def close(self) -> None:
        """Let go of the library."""
        with self._lock:
            if self._initialized:
                self._call("nvmlShutdown")
                self._initialized = False

    def _listed(self, uuid: str) -> Reading[Any]:
        """The processes that compute on the device, as the library lists them."""
        handle = self._call("nvmlDeviceGetHandleByUUID", uuid)
        if handle.value is None:
            return handle.without_value()
        return self._call("nvmlDeviceGetComputeRunningProcesses", handle.value)

    def _card(self, index: int, handle: Any) -> list[DeviceInfo]:
        mode = self._call("nvmlDeviceGetMigMode", handle).value
        cut = isinstance(mode, list | tuple) and bool(mode) and mode[0] == 1
        card = self._device(index, handle, mig_enabled=cut)
        return [card, *(self._instances(index, handle) if cut else ())]

    def _instances(self, index: int, handle: Any) -> list[DeviceInfo]:
        most = self._call("nvmlDeviceGetMaxMigDeviceCount", handle).value
        found = []
        for position in range(most if isinstance(most, int) else 0):
            instance = self._call("nvmlDeviceGetMigDeviceHandleByIndex", handle, position)
            if instance.value is not None:
                found.append(self._device(index, instance.value, mig=True))
        return found

    def _device(self, index: int, handle: Any, *, mig: bool = False, mig_enabled: bool = False) -> DeviceInfo:
        return DeviceInfo(
            index=index,
            uuid=_text(self._call("nvmlDeviceGetUUID", handle)),
            name=_text(self._call("nvmlDeviceGetName", handle)),
            memory=self._memory(handle),
            mig=mig,
            mig_enabled=mig_enabled,
        )

    def _memory(self, handle: Any) -> Reading[Memory]:
        """The newer call, which tells the driver's own share apart, else the older."""
        version = getattr(self._library, "nvmlMemory_v2", None)
        info = self._call("nvmlDeviceGetMemoryInfo", handle, version) if version is not None else None
        if info is None or info.value is None:
            info = self._call("nvmlDeviceGetMemoryInfo", handle)
        if info.value is None:
            return info.without_value()
        return _plausible(info.value)

    def _call(self, name: str, *arguments: Any) -> Reading[Any]:
        """The one place that talks to the library: starts it, finds functions, turns errors into reasons."""
        with self._lock:
            begun = self._begin()
            if begun.value is None:
                return begun
            answer = self._invoke(name, *arguments)
            if answer.reason == REASONS[NOT_INITIALIZED]:  # somebody else in the process shut it down
                self._initialized = False
                begun = self._begin()
                answer = self._invoke(name, *arguments) if begun.value else begun
            return answer

    def _begin(self) -> Reading[Any]:
        if self._initialized:
            return Reading(True)
        if self._library is None:
            try:
                self._library = importlib.import_module("pynvml")
            except ImportError as error:
                return Reading(None, "no_binding", str(error))
        begun = self._invoke("nvmlInit")
        if begun.reason:
            return begun
        self._initialized = True
        return Reading(True)

    def _invoke(self, name: str, *arguments: Any) -> Reading[Any]:
        function = getattr(self._library, name, None)
        if function is None:
            return Reading(None, "missing_symbol", name)
        try:
            return Reading(function(*arguments))
        except Exception as error:  # noqa: BLE001  # bindings raise their own, ctypes and OS errors alike
            code = getattr(error, "value", None)
            reason = REASONS.get(code, "driver_error") if isinstance(code, int) else "driver_error"
            return Reading(None, reason, f"{type(error).__name__}: {error}")


def _why_not_listed(pids: list[Any], proc: Path = PROC) -> str:
    """Whether the processes that the driver lists are known here at all."""
    if not pids or not proc.is_dir():
        return "pid_not_listed"
    here = any((proc / str(pid)).exists() for pid in pids)
    return "pid_not_listed" if here else "pid_namespace"


def _text(reading: Reading[Any]) -> Reading[str]:
    value = reading.value
    if value is None:
        return reading.without_value() if reading.reason else Reading(None, "no_data")
    text = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)
    return Reading(text) if text.strip() else Reading(None, "no_data")


def _plausible(info: Any) -> Reading[Memory]:
    """Sizes that can be: positive, below any card, used no more than there is."""
    total, used, free = (getattr(info, name, None) for name in ("total", "used", "free"))
    if not (isinstance(total, int) and isinstance(used, int) and isinstance(free, int)):
        return Reading(None, "not_available", f"total {total}, used {used}, free {free}")
    if not 0 < total < MAX_PLAUSIBLE_BYTES or not 0 <= used <= total or not 0 <= free <= total:
        return Reading(None, "implausible", f"total {total}, used {used}, free {free}")
    reserved = getattr(info, "reserved", None)
    kept = reserved if isinstance(reserved, int) and 0 <= reserved < total else None
    usable = total - (kept or 0)
    return Reading(
        Memory(total_bytes=usable, used_bytes=min(used, usable), free_bytes=free, reserved_bytes=kept)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """Which devices CUDA shows a new process, in CUDA's order.

    Attributes:
        devices: The devices.
        order_known: False where CUDA numbers the cards by speed and the driver by bus, and the cards differ.
        reason: Why there are none, empty if there are some: `hidden`, `unknown_entry`, `repeated_entry`,
            `no_device`.
    """

    devices: tuple[DeviceInfo, ...]
    order_known: bool = True
    reason: str = ""


def visible_devices(devices: tuple[DeviceInfo, ...], environment: Mapping[str, str] | None = None) -> Visible:
    """What `CUDA_VISIBLE_DEVICES` leaves of the devices.

    Entries are indices or UUIDs (any unambiguous beginning); the first entry that names nothing hides itself
    and all after it, and a repeated one hides everything. CUDA C++ programming guide, "CUDA Environment
    Variables".
    """
    environment = os.environ if environment is None else environment
    usable = tuple(device for device in devices if not device.mig_enabled)
    by_bus = environment.get("CUDA_DEVICE_ORDER", "") == "PCI_BUS_ID"
    alike = len({device.name.value for device in usable if not device.mig}) <= 1
    given = environment.get("CUDA_VISIBLE_DEVICES")
    if given is None:
        return Visible(devices=usable, order_known=by_bus or alike, reason="" if usable else "no_device")
    chosen: list[DeviceInfo] = []
    entries = [entry.strip() for entry in given.split(",")]
    for entry in entries:
        device = _named(entry, devices)
        if device is None:
            break
        if device in chosen:
            return Visible(devices=(), reason="repeated_entry")
        chosen.append(device)
    indices = any(entry.isdecimal() for entry in entries)
    reason = "" if chosen else "hidden" if entries[0] in {"", "-1", "NoDevFiles"} else "unknown_entry"
    return Visible(devices=tuple(chosen), order_known=by_bus or alike or not indices, reason=reason)


def _named(entry: str, devices: tuple[DeviceInfo, ...]) -> DeviceInfo | None:
    if entry.isdecimal():
        found = [device for device in devices if device.index == int(entry)]
        cut = bool(found) and found[0].mig_enabled  # the index of a cut card means its first instance
        return None if not found or (cut and len(found) == 1) else found[1 if cut else 0]
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    found = [device for device in devices if (device.uuid.value or "").startswith(entry)]
    return found[0] if len(found) == 1 and not found[0].mig_enabled else None
