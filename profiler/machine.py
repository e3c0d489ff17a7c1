"""The cards of this machine as hardware rows: what "use this machine" fills in."""

from collections.abc import Mapping
from dataclasses import dataclass

from profiler.gpu_names import gpu_id_for
from profiler.nvml import DeviceInfo, Nvml, Reading, visible_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDevice:
    """One usable device.

    Attributes:
        gpu_id: Id in the tables, None where they have no such card.
        label: The driver's name, empty if it does not say.
        uuid: The driver's id of it, None if it does not say.
        memory_bytes: In all, None if not known.
        free_bytes: Left by other processes now, None if not known.
        mig: It is a MIG instance.
        reasons: (what, reason) for everything that is not known.
    """

    gpu_id: str | None
    label: str
    uuid: str | None
    memory_bytes: int | None
    free_bytes: int | None
    mig: bool = False
    reasons: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The devices that a new CUDA process would see, in its order.

    Attributes:
        devices: The devices.
        reason: Why there are none, empty if there are some.
        detail: The driver library's own words.
        driver: Version of the driver, empty if not known.
        order_known: See `profiler.nvml.Visible`.
    """

    devices: tuple[MachineDevice, ...] = ()
    reason: str = ""
    detail: str = ""
    driver: str = ""
    order_known: bool = True


def machine_devices(nvml: Nvml, environment: Mapping[str, str] | None = None) -> Machine:
    """What this machine has; never raises.

    Args:
        nvml: The driver library.
        environment: Environment variables, None for this process's.
    """
    found = nvml.devices()
    if found.value is None:
        return Machine(reason=found.reason, detail=found.detail)
    visible = visible_devices(found.value, environment)
    return Machine(
        devices=tuple(_device(device) for device in visible.devices),
        reason=visible.reason,
        driver=nvml.driver_version().value or "",
        order_known=visible.order_known,
    )


def _device(device: DeviceInfo) -> MachineDevice:
    memory, name = device.memory.value, device.name.value or ""
    total = memory.total_bytes if memory else None
    readings: tuple[tuple[str, Reading[object]], ...] = (
        ("uuid", Reading(device.uuid.value, device.uuid.reason)),
        ("name", Reading(device.name.value, device.name.reason)),
        ("memory", Reading(device.memory.value, device.memory.reason)),
    )
    return MachineDevice(
        gpu_id=None if device.mig else gpu_id_for(name, total),
        label=name,
        uuid=device.uuid.value,
        memory_bytes=total,
        free_bytes=memory.free_bytes if memory else None,
        mig=device.mig,
        reasons=tuple((what, reading.reason) for what, reading in readings if reading.value is None),
    )
