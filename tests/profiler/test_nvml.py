"""NVML as found on many machines: a value or a reason, never 0, never an exception."""

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from profiler.machine import machine_devices
from profiler.nvml import NOT_INITIALIZED, REASONS, DeviceInfo, Nvml, Reading, visible_devices
from tests.profiler.fake_nvml import MIB, Answer, Card, FakeNvml, failure, memory

H100 = Card("NVIDIA H100 80GB HBM3", "GPU-11111111-aaaa", memory(85_520_809_984, 600 * MIB, 84_000_000_000))
RTX = Card("NVIDIA GeForce RTX 4090", "GPU-22222222-bbbb", memory(25_757_220_864, 0, 25_757_220_864))
PID = 4242


def test_codes_are_the_librarys_own() -> None:
    names = {
        "not_supported": pynvml.NVML_ERROR_NOT_SUPPORTED,
        "no_permission": pynvml.NVML_ERROR_NO_PERMISSION,
        "driver_not_loaded": pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        "no_driver": pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        "missing_symbol": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        "gpu_lost": pynvml.NVML_ERROR_GPU_IS_LOST,
        "reset_required": pynvml.NVML_ERROR_RESET_REQUIRED,
        "library_mismatch": pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
        "not_found": pynvml.NVML_ERROR_NOT_FOUND,
        "no_data": pynvml.NVML_ERROR_NO_DATA,
        "version_mismatch": pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        "invalid_argument": pynvml.NVML_ERROR_INVALID_ARGUMENT,
        "out_of_memory": pynvml.NVML_ERROR_MEMORY,
        "not_initialized": pynvml.NVML_ERROR_UNINITIALIZED,
    }
    assert {reason: code for code, reason in REASONS.items()} == names
    assert pynvml.NVML_ERROR_UNINITIALIZED == NOT_INITIALIZED


def test_the_real_library_answers_whatever_this_machine_has() -> None:
    nvml = Nvml()
    found = nvml.devices()
    assert (found.value is None) == bool(found.reason)
    assert (nvml.driver_version().value is None) == bool(nvml.driver_version().reason)
    nvml.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (failure(12), "no_driver"),
        (failure(9), "driver_not_loaded"),
        (failure(18), "library_mismatch"),
        (failure(4), "no_permission"),
        (failure(999), "driver_error"),
    ],
)
def test_a_library_that_does_not_start(answer: Answer, reason: str) -> None:
    nvml = Nvml(FakeNvml(H100, overrides={"nvmlInit": answer}))
    assert nvml.devices().reason == nvml.driver_version().reason == reason
    assert nvml.process_bytes("GPU-1", PID).reason == nvml.memory("GPU-1").reason == reason
    machine = machine_devices(nvml, {})
    assert (machine.devices, machine.reason) == ((), reason)
    assert machine.detail


def test_errors_that_are_not_the_librarys_own() -> None:
    def broken(*_: object) -> Any:
        raise OSError("libnvidia-ml.so.1: invalid ELF header")

    reading = Nvml(FakeNvml(overrides={"nvmlInit": broken})).devices()
    assert reading.reason == "driver_error"
    assert "ELF" in reading.detail


def test_a_driver_that_comes_later_is_found() -> None:
    fake = FakeNvml(H100, overrides={"nvmlInit": failure(12)})
    nvml = Nvml(fake)
    assert nvml.devices().value is None
    fake._overrides = {}
    assert nvml.devices().value is not None


def test_a_library_that_somebody_shut_down_is_started_again() -> None:
    fake = FakeNvml(H100)
    nvml = Nvml(fake)
    assert nvml.devices().value
    states = iter([failure(1), 1])
    fake._overrides = {"nvmlDeviceGetCount": lambda: _next(states)}
    found = nvml.devices()
    assert found.value
    assert fake.calls.count("nvmlInit") == 2


def _next(states: Any) -> Any:
    answer = next(states)
    return answer() if callable(answer) else answer


def test_it_is_started_once_and_only_when_asked() -> None:
    fake = FakeNvml(H100)
    nvml = Nvml(fake)
    assert fake.calls == []
    nvml.devices()
    nvml.devices()
    assert fake.calls.count("nvmlInit") == 1
    nvml.close()
    nvml.close()
    assert fake.calls.count("nvmlShutdown") == 1


def _only(card: Card, **library: Any) -> DeviceInfo:
    found = Nvml(FakeNvml(card, **library)).devices()
    assert found.value is not None
    return found.value[0]


def test_a_plain_card() -> None:
    device = _only(H100)
    assert device.uuid == Reading("GPU-11111111-aaaa")
    assert device.name == Reading("NVIDIA H100 80GB HBM3")
    assert device.memory.value is not None
    assert device.memory.value.used_bytes == 600 * MIB
    assert not device.mig_enabled


def test_names_as_bytes() -> None:
    assert _only(Card(b"Tesla T4", b"GPU-1")).name.value == "Tesla T4"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (failure(3), "not_supported"),
        (failure(15), "gpu_lost"),
        (failure(16), "reset_required"),
        (memory(2**64 - 1, 0, 2**64 - 1), "implausible"),
        (memory(2**64 - 2**20, 2**64 - 2**21, 2**20), "implausible"),
        (memory(0, 0, 0), "implausible"),
        (memory(1000, 2000, 0), "implausible"),
        (memory(1000, 0, 2000), "implausible"),
        (SimpleNamespace(total=None, used=None, free=None), "not_available"),
        (SimpleNamespace(), "not_available"),
    ],
)
def test_memory_that_cannot_be_is_unknown(answer: Answer, reason: str) -> None:
    card = Card("NVIDIA GB10", "GPU-1", answer)
    assert _only(card).memory.value is None
    assert _only(card).memory.reason == reason
    row = machine_devices(Nvml(FakeNvml(card)), {}).devices[0]
    assert (row.memory_bytes, row.free_bytes) == (None, None)
    assert row.reasons == (("memory", reason),)
    assert row.gpu_id == "gb10-128gb"


def test_the_drivers_own_share_is_taken_off() -> None:
    read = _only(Card("x", "GPU-1", memory(1000, 100, 850, reserved=50))).memory.value
    assert read is not None
    assert (read.total_bytes, read.used_bytes, read.free_bytes) == (950, 100, 850)


def test_an_old_driver_without_the_newer_call() -> None:
    def older(*version: object) -> Any:
        if version:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return memory(1000, 150, 850)

    read = _only(Card("x", "GPU-1", older)).memory.value
    assert read is not None
    assert read.total_bytes == 1000
    assert _only(H100, missing=("nvmlMemory_v2",)).memory.value is not None


@pytest.mark.parametrize(
    "symbol", ["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMigMode"]
)
def test_a_missing_symbol_costs_only_what_it_tells(symbol: str) -> None:
    device = _only(H100, missing=(symbol,))
    readings: dict[str, Reading[Any]] = {
        "nvmlDeviceGetMemoryInfo": device.memory,
        "nvmlDeviceGetUUID": device.uuid,
        "nvmlDeviceGetName": device.name,
    }
    for name, reading in readings.items():
        assert reading.reason == ("missing_symbol" if name == symbol else "")


def test_a_card_that_is_lost_does_not_hide_the_others() -> None:
    def handle(index: int) -> Any:
        if index == 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return RTX

    found = Nvml(FakeNvml(H100, RTX, overrides={"nvmlDeviceGetHandleByIndex": handle})).devices().value
    assert found is not None
    assert [device.uuid.reason for device in found] == ["gpu_lost", ""]


def _used(answer: Answer) -> Reading[int]:
    return Nvml(FakeNvml(Card("x", "GPU-1", processes=answer))).process_bytes("GPU-1", PID)


def _process(pid: int, used: Any) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=used)


@pytest.mark.parametrize(
    ("answer", "value", "reason"),
    [
        ([_process(PID, 5 * MIB)], 5 * MIB, ""),
        ([_process(1, 9), _process(PID, 7)], 7, ""),
        ([], None, "pid_not_listed"),
        ([_process(2**31 - 2, 9 * MIB)], None, "pid_namespace"),  # a container: the host's process ids
        ([_process(1, 9 * MIB)], None, "pid_not_listed"),  # a neighbour that is known here
        ([_process(PID, None)], None, "not_available"),
        ([_process(PID, 0)], None, "not_available"),  # a live process cannot use nothing
        ([_process(PID, 2**64 - 1)], None, "not_available"),
        (failure(3), None, "not_supported"),
        (failure(4), None, "no_permission"),
    ],
)
def test_a_processs_own_memory(answer: Answer, value: int | None, reason: str) -> None:
    reading = _used(answer)
    assert (reading.value, reading.reason) == (value, reason)


def test_a_device_that_is_not_there() -> None:
    assert Nvml(FakeNvml(H100)).process_bytes("GPU-9", PID).reason == "not_found"
    assert Nvml(FakeNvml(H100)).memory("GPU-9").reason == "not_found"


MIG_A = Card("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "MIG-aaaa", memory(4_900 * MIB, 10 * MIB, 4_890 * MIB))
MIG_B = Card("NVIDIA A100-SXM4-40GB MIG 2g.10gb", "MIG-bbbb", memory(9_800 * MIB, 10 * MIB, 9_790 * MIB))
CUT = Card("NVIDIA A100-SXM4-40GB", "GPU-33333333-cccc", failure(4), mig=[MIG_A, MIG_B])


def test_a_cut_card_shows_its_instances() -> None:
    found = Nvml(FakeNvml(CUT)).devices().value
    assert found is not None
    assert [(d.uuid.value, d.mig, d.mig_enabled) for d in found] == [
        ("GPU-33333333-cccc", False, True),
        ("MIG-aaaa", True, False),
        ("MIG-bbbb", True, False),
    ]
    machine = machine_devices(Nvml(FakeNvml(CUT)), {})
    assert [(d.uuid, d.gpu_id, d.mig) for d in machine.devices] == [
        ("MIG-aaaa", None, True),
        ("MIG-bbbb", None, True),
    ]
    assert machine.devices[0].memory_bytes == 4_900 * MIB


def test_a_card_that_could_be_cut_and_is_not() -> None:
    found = Nvml(FakeNvml(Card("x", "GPU-1", mig=[]))).devices().value
    assert found is not None
    assert len(found) == 1
    assert not found[0].mig_enabled


@pytest.mark.parametrize(
    ("given", "uuids", "reason"),
    [
        (None, ["GPU-1111", "GPU-1122", "MIG-aaaa", "MIG-bbbb"], ""),
        ("", [], "hidden"),
        ("-1", [], "hidden"),
        ("NoDevFiles", [], "hidden"),
        ("0", ["GPU-1111"], ""),
        ("1,0", ["GPU-1122", "GPU-1111"], ""),
        (" 1 , 0 ", ["GPU-1122", "GPU-1111"], ""),
        ("2", ["MIG-aaaa"], ""),
        ("0,9,1", ["GPU-1111"], ""),
        ("0,-1,1", ["GPU-1111"], ""),
        ("9", [], "unknown_entry"),
        ("0,0", [], "repeated_entry"),
        ("0,GPU-1111", [], "repeated_entry"),
        ("GPU-1122", ["GPU-1122"], ""),
        ("GPU-112,GPU-111", ["GPU-1122", "GPU-1111"], ""),
        ("GPU-11", [], "unknown_entry"),  # two begin so
        ("GPU-33333333-cccc", [], "unknown_entry"),  # cut: not usable as a whole
        ("MIG-bbbb,GPU-1111", ["MIG-bbbb", "GPU-1111"], ""),
        ("nonsense", [], "unknown_entry"),
    ],
)
def test_what_cuda_shows_of_the_devices(given: str | None, uuids: list[str], reason: str) -> None:
    found = Nvml(FakeNvml(Card("A", "GPU-1111"), Card("A", "GPU-1122"), CUT)).devices().value
    assert found is not None
    visible = visible_devices(found, {} if given is None else {"CUDA_VISIBLE_DEVICES": given})
    assert [device.uuid.value for device in visible.devices] == uuids
    assert visible.reason == reason


@pytest.mark.parametrize(
    ("environment", "known"),
    [
        ({}, False),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, True),
        ({"CUDA_VISIBLE_DEVICES": "1"}, False),
        ({"CUDA_VISIBLE_DEVICES": "GPU-2222"}, True),
    ],
)
def test_indices_of_unlike_cards_need_an_order(environment: dict[str, str], known: bool) -> None:
    found = Nvml(FakeNvml(H100, RTX)).devices().value
    assert found is not None
    assert visible_devices(found, environment).order_known is known


def test_this_machine_as_hardware_rows() -> None:
    machine = machine_devices(Nvml(FakeNvml(H100, RTX)), {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert machine.driver == "570.86.15"
    assert [(d.gpu_id, d.memory_bytes, d.free_bytes) for d in machine.devices] == [
        ("h100-sxm-80gb", 85_520_809_984, 84_000_000_000),
        ("rtx-4090-24gb", 25_757_220_864, 25_757_220_864),
    ]
    assert machine.devices[0].reasons == ()


def test_a_driver_without_cards() -> None:
    machine = machine_devices(Nvml(FakeNvml()), {})
    assert (machine.devices, machine.reason) == ((), "no_device")
