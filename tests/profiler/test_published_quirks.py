"""Published reports of profilers, driver readings and live pages that went wrong: a test each, or why there is none.

The rows are those of `tests/data/truth/scenarios.jsonl` of the kinds `profiler`, `nvml-quirk` and `ui-bug`.
"""

import ast
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
import torch

from hardware_db import load_tables
from planner.estimate import plan
from planner.plan_types import Verdict
from planner.scenario import Scenario
from planner.units import GIB
from profiler.documents import Options
from profiler.hook import memory as hook_memory
from profiler.hook.lines import Lines
from profiler.hook.settings import HookSettings
from profiler.hook.snapshots import MAX_ENTRIES, Snapshots
from profiler.job_types import ExitReason
from profiler.machine import machine_devices
from profiler.nvml import Nvml, visible_devices
from profiler.nvml_load import read_load
from profiler.plan_request import prepare
from profiler.registry import Busy, JobRegistry
from profiler.report_parts import Program
from profiler.runner import MAX_KEPT_SAMPLES
from profiler.snapshot.read import read_snapshot
from profiler.watching import Watch
from tests.profiler.fake_nvml import MIB, Card, FakeNvml, failure, memory
from tests.profiler.jobs import SCENARIO, finish, is_running, start, stub_runner, until
from tests.profiler.scenarios import LLAMA, scenario

ROOT: Final = Path(__file__).resolve().parents[2]
ROWS: Final = ROOT / "tests" / "data" / "truth" / "scenarios.jsonl"
KINDS: Final = {"profiler", "nvml-quirk", "ui-bug"}
UNKNOWN_ERROR: Final = 999
NO_PERMISSION: Final = 4


def published() -> dict[str, dict[str, Any]]:
    rows = (json.loads(text) for text in ROWS.read_text(encoding="utf-8").splitlines())
    return {row["id"]: row for row in rows if row["kind"] in KINDS}


def j100_unified_memory_shows_pool_and_what_is_left() -> None:
    """121 GB are the pool, 60 GB of it others'; what can be used is what is left, not the pool."""
    pool, left = 121_000_000_000, 61_000_000_000
    gb10 = Card("NVIDIA GB10", "GPU-1", memory(pool, pool - left, left))
    (device,) = machine_devices(Nvml(FakeNvml(gb10)), {}).devices
    assert (device.gpu_id, device.memory_bytes, device.free_bytes) == ("gb10-128gb", pool, left)
    large = scenario(LLAMA | {"vocab_size": 250_000, "hidden_size": 8_192, "num_hidden_layers": 4})
    made = plan(Scenario.model_validate(large), load_tables())
    assert left < made.worst.peak_bytes < pool, "between the two"
    assert prepare(made, "cuda", device.free_bytes).too_large is not None
    assert prepare(made, "cuda", device.memory_bytes).too_large is None


def j102_no_permission_on_a_mig_parent() -> None:
    """The parent does not answer, its slices do; nothing raises and nothing is 0."""
    slices = [Card("A100 MIG 1g.5gb", "MIG-1", memory(5 * GIB, GIB, 4 * GIB))]
    denied = dict.fromkeys(
        ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage"), failure(NO_PERMISSION)
    )
    parent = Card("A100", "GPU-1", failure(NO_PERMISSION), mig=slices, overrides=denied)
    nvml = Nvml(FakeNvml(parent))
    found = nvml.devices().value
    assert found is not None
    assert (found[0].memory.value, found[0].memory.reason) == (None, "no_permission")
    assert found[1].memory.value is not None
    assert found[1].memory.value.total_bytes == 5 * GIB
    load, _ = read_load(nvml, "GPU-1", 1.0)
    assert (load.gpu_frac, load.power_w) == (None, None)


def j103_a_mig_parent_knows_its_memory_only() -> None:
    total, used = 42_505_273_344, 14_987_362_304
    slices = [Card("A100 MIG 1g.5gb", f"MIG-{number}", memory(5 * GIB, 0, 5 * GIB)) for number in range(7)]
    parent = Card("A100-SXM4-40GB", "GPU-1", memory(total, used, total - used), mig=slices)
    nvml = Nvml(FakeNvml(parent))
    found = nvml.devices().value
    assert found is not None
    assert found[0].memory.value is not None
    assert round(found[0].memory.value.total_bytes / GIB, 2) == published()["J103"]["expected"]["value"]
    assert [card.mig for card in found] == [False, *[True] * 7]
    assert read_load(nvml, "GPU-1", 1.0)[0].gpu_frac is None


def j105_the_newer_call_fails_and_the_older_answers() -> None:
    def answer(version: int | None = None) -> Any:
        return failure(UNKNOWN_ERROR)() if version is not None else memory(10 * GIB, GIB, 9 * GIB)

    nvml = Nvml(FakeNvml(Card("RTX 3080", "GPU-1", answer)))
    reading = nvml.memory("GPU-1")
    assert reading.value is not None
    assert (reading.value.total_bytes, reading.value.reserved_bytes) == (10 * GIB, None)


def j106_all_ones_are_no_size() -> None:
    for used in (None, 2**64 - 1):
        running = [SimpleNamespace(pid=os.getpid(), usedGpuMemory=used)]
        nvml = Nvml(FakeNvml(Card("RTX 4070 Ti SUPER", "GPU-1", processes=running)))
        reading = nvml.process_bytes("GPU-1", os.getpid())
        assert (reading.value, reading.reason) == (None, "not_available")
        assert nvml.processes("GPU-1").value == ((os.getpid(), None),)
    assert Nvml(FakeNvml(Card("x", "GPU-1", memory(2**64 - 1, 0, 0)))).memory("GPU-1").reason == "implausible"


def j107_cudas_number_is_not_the_drivers() -> None:
    """Cards are told by their UUID; unlike cards without an order by bus are not guessed at."""
    cards = (Card("GeForce GTX 745", "GPU-a"), Card("GeForce GTX 1080 Ti", "GPU-b"))
    found = Nvml(FakeNvml(*cards)).devices().value
    assert found is not None
    turned = visible_devices(found, {"CUDA_VISIBLE_DEVICES": "1,0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert [card.uuid.value for card in turned.devices] == ["GPU-b", "GPU-a"]
    assert not visible_devices(found, {"CUDA_VISIBLE_DEVICES": "1,0"}).order_known
    named = visible_devices(found, {"CUDA_VISIBLE_DEVICES": "GPU-b"})
    assert (named.devices[0].name.value, named.order_known) == ("GeForce GTX 1080 Ti", True)


def j109_the_driver_goes_away_in_the_middle() -> None:
    state = {"gone": False}
    nvml = Nvml(
        FakeNvml(
            Card("A", "GPU-1", lambda *_: failure(UNKNOWN_ERROR)() if state["gone"] else memory(9, 3, 6))
        )
    )
    cards = nvml.devices().value
    assert cards is not None
    seen = Watch(nvml, cards)
    seen.look(0.0)
    state["gone"] = True
    seen.look(1.0)
    report = seen.report(Program(way="watch"))
    assert [(one.used_bytes, one.stale) for one in report.cards[0].readings] == [(3, False), (3, True)]
    assert report.remarks[0].code == "nvml_failed"


def j110_two_cards_are_a_list() -> None:
    cards = (Card("RTX 3090", "GPU-a", memory(24, 20, 4)), Card("RTX 3090", "GPU-b", memory(24, 1, 23)))
    devices = machine_devices(Nvml(FakeNvml(*cards)), {}).devices
    assert [device.free_bytes for device in devices] == [4, 23]


def j112_every_card_is_watched() -> None:
    cards = (Card("RTX 5060 Ti", "GPU-a", memory(16, 4, 12)), Card("RTX 5060 Ti", "GPU-b", memory(16, 5, 11)))
    nvml = Nvml(FakeNvml(*cards))
    found = nvml.devices().value
    assert found is not None
    seen = Watch(nvml, found)
    seen.look(0.0)
    report = seen.report(Program(way="watch"))
    assert [card.peak_bytes for card in report.cards] == [4, 5]
    assert report.samples[0].device_used_bytes == 9


def j113_apples_working_set_is_the_budget() -> None:
    """Two thirds to three quarters of the memory may be wired; a model of nine tenths of it does not fit."""
    tables = load_tables()
    apples = [gpu for gpu in tables.gpus.values() if gpu.vendor == "Apple"]
    assert apples
    for gpu in apples:
        assert gpu.usable_bytes is not None
        memory_bytes = int(gpu.id.rpartition("-")[2].removesuffix("gb")) * GIB
        assert 0.65 <= gpu.usable_bytes / memory_bytes <= 0.81, gpu.id
    file_bytes = round(42.7 / 48 * 64e9)
    asked = {
        "version": 1,
        "task": "serve",
        "model": {"id": "meta-llama/Llama-3.3-70B-Instruct"},
        "hardware": {"devices": [{"gpu": "apple-m3-max-64gb"}]},
        "runtime": {"name": "llama_cpp"},
        "serving": {"weights_file_bytes": file_bytes, "max_model_len": 4_096, "gpu_layers": 81},
    }
    assert plan(Scenario.model_validate(asked), tables).verdict is Verdict.DOES_NOT_FIT


def j115_a_snapshot_without_history_is_read() -> None:
    both: tuple[list[Any], ...] = ([], [[]])
    for traces in both:
        snapshot = read_snapshot(pickle.dumps({"segments": [], "device_traces": traces}))
        assert snapshot is not None


def j116_the_history_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda **given: asked.append(given))
    Snapshots(Lines(str(tmp_path / "x")), HookSettings(folder=str(tmp_path), snapshot_step=3)).step_begins(3)
    assert asked == [{"max_entries": MAX_ENTRIES}]


def j117_profilers_categories_are_not_relied_on() -> None:
    """PyTorch's profiler is asked for times in one file, and for memory in none."""
    users = []
    for path in (ROOT / "profiler").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        words = {word.arg for node in ast.walk(tree) if isinstance(node, ast.Call) for word in node.keywords}
        assert "profile_memory" not in words, path
        users += [path.name] if "torch.profiler" in names else []
    assert users == ["talk.py"]


def j118_a_snapshot_that_fails_stops_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("mempool id must be a pair")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda **_: None)
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", broken)
    path = tmp_path / "1.lines"
    taken = Snapshots(Lines(str(path)), HookSettings(folder=str(tmp_path), snapshot_step=1))
    taken.step_begins(1)
    taken.step_ends(1)
    (line,) = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    assert (line["path"], line["problem"]) == ("", "RuntimeError: mempool id must be a pair")


def j119_peaks_are_taken_anew_at_every_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocator as CUDA's: the peak stays until it is reset."""
    state = {"current": 5, "peak": 90}

    def stats(_: object) -> dict[str, Any]:
        return {name: {"all": dict(state)} for name in ("allocated_bytes", "reserved_bytes")}

    def reset(_: object) -> None:
        state["peak"] = state["current"]

    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", stats)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset)
    counters = hook_memory.CudaCounters("cuda:0", keep_peaks=False)
    assert counters.take_peak() == (90, 90)
    state.update(current=7, peak=20)
    assert counters.take_peak() == (20, 20)
    assert counters.now() == (7, 7)
    kept = hook_memory.CudaCounters("cuda:0", keep_peaks=True)
    state.update(peak=50)
    assert (kept.take_peak(), kept.take_peak()) == ((50, 50), (50, 50))


def j130_a_second_click_starts_nothing() -> None:
    registry, starts = JobRegistry(), []

    def click() -> Any:
        starts.append(1)
        return stub_runner("hang").start(SCENARIO, Options())

    job = registry.start("gpu", "me", click)
    try:
        assert isinstance(registry.start("gpu", "me", click), Busy)
        assert len(starts) == 1
    finally:
        registry.close()
    assert not isinstance(job, Busy)
    assert job.is_over


def j131_what_measured_is_gone_when_it_is_over() -> None:
    job = start("hang")
    until(lambda: job.snapshot().progress is not None)
    pid = job.snapshot().pid
    job.stop()
    assert finish(job).reason is ExitReason.STOPPED
    assert pid is not None
    assert not is_running(pid)


def j132_a_live_history_is_a_ring() -> None:
    job = start("hang")
    try:
        until(lambda: job.snapshot().progress is not None)
        line = b'{"protocol": 1, "event": "sample", "at_s": 1.0}'
        for _ in range(2 * MAX_KEPT_SAMPLES):
            job._on_line(line)
        assert len(job.snapshot().samples) == MAX_KEPT_SAMPLES
    finally:
        job.stop()
        finish(job)


TESTS: Final[dict[str, Callable[..., None]]] = {
    name.partition("_")[0].upper(): value
    for name, value in dict(globals()).items()
    if name[0] == "j" and name[1:4].isdigit()
}


def test_every_row_is_answered() -> None:
    assert TESTS.keys() == published().keys()


@pytest.mark.parametrize("row", sorted(TESTS))
def test_a_published_quirk(row: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known: dict[str, Any] = {"monkeypatch": monkeypatch, "tmp_path": tmp_path}
    do = TESTS[row]
    do(**{name: known[name] for name in do.__code__.co_varnames[: do.__code__.co_argcount]})


def test_units_of_the_fakes_are_the_planners() -> None:
    assert GIB == 1024 * MIB
