"""Watching from outside: cards over time, lost cards, a driver that fails for a while, a process of its own."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import profiler.__main__ as command
from profiler import outside
from profiler.nvml import Nvml
from profiler.nvml_load import NVLINK_SENT, LinkCounters, read_load
from profiler.report import Report, dump_report, load_report
from profiler.report_parts import MAX_READINGS, Program
from profiler.watching import Watch
from tests.profiler.fake_nvml import MIB, Card, FakeNvml, failure, memory

PROGRAM = Program(way="watch", name="gpu:0")
KIB = 1_024  # what the driver counts links in


def link_counter(value: int) -> Callable[..., Any]:
    """Both links' counters; unknown ones fail on their own, as the driver reports them."""

    def answer(fields: list[tuple[int, int]]) -> Any:
        known = fields[0][0] == NVLINK_SENT
        return [SimpleNamespace(nvmlReturn=0 if known else 3, value=SimpleNamespace(ullVal=value))]

    return answer


BUSY: dict[str, Any] = {
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97, memory=41),
    "nvmlDeviceGetPowerUsage": 412_345,
    "nvmlDeviceGetClockInfo": lambda which: {1: 1_755, 2: 2_619}[which],
    "nvmlDeviceGetPcieThroughput": lambda which: {0: 1_000, 1: 2_000}[which],
    "nvmlDeviceGetFieldValues": link_counter(5_000),
}


def watch(library: FakeNvml, pid: int | None = None) -> tuple[Watch, Nvml]:
    nvml = Nvml(library)
    found = nvml.devices().value
    assert found is not None
    return Watch(nvml, tuple(card for card in found if not card.mig_enabled), pid), nvml


def kept(report: Report) -> Report:
    assert load_report(dump_report(report).encode()) == report
    return report


def test_everything_a_card_offers() -> None:
    card = Card("NVIDIA H100", "GPU-1", overrides=BUSY)
    nvml = Nvml(FakeNvml(card))
    before = LinkCounters(at_s=1.0, sent_bytes=1_000 * KIB, received_bytes=None)
    reading, counters = read_load(nvml, "GPU-1", 3.0, before)
    assert (reading.gpu_frac, reading.memory_frac, reading.power_w) == (0.97, 0.41, 412.345)
    assert (reading.sm_mhz, reading.memory_mhz) == (1_755, 2_619)
    assert (reading.pcie_sent_bytes_per_s, reading.pcie_received_bytes_per_s) == (1_000 * KIB, 2_000 * KIB)
    assert reading.nvlink_sent_bytes_per_s == 2_000 * KIB
    assert reading.nvlink_received_bytes_per_s is None
    assert counters.sent_bytes == 5_000 * KIB


@pytest.mark.parametrize("missing", sorted(BUSY))
def test_what_a_card_lacks_takes_nothing_else_away(missing: str) -> None:
    nvml = Nvml(FakeNvml(Card("Card", "GPU-1", overrides={**BUSY, missing: failure(3)})))
    reading, _ = read_load(nvml, "GPU-1", 1.0)
    values = reading.model_dump()
    names = {
        "nvmlDeviceGetUtilizationRates": "gpu_frac",
        "nvmlDeviceGetPowerUsage": "power_w",
        "nvmlDeviceGetClockInfo": "sm_mhz",
        "nvmlDeviceGetPcieThroughput": "pcie_sent_bytes_per_s",
    }
    unknown = {name for key, name in names.items() if values[name] is None}
    assert unknown == ({names[missing]} if missing in names else set())


@pytest.mark.parametrize(
    ("function", "answer", "field"),
    [
        ("nvmlDeviceGetUtilizationRates", SimpleNamespace(gpu=2**32 - 1, memory="[N/A]"), "gpu_frac"),
        ("nvmlDeviceGetPowerUsage", 2**32 - 1, "power_w"),
        ("nvmlDeviceGetClockInfo", lambda _: 2**32 - 1, "sm_mhz"),
        ("nvmlDeviceGetPcieThroughput", lambda _: 2**32 - 1, "pcie_sent_bytes_per_s"),
    ],
)
def test_a_value_that_cannot_be_is_unknown(function: str, answer: Any, field: str) -> None:
    nvml = Nvml(FakeNvml(Card("Card", "GPU-1", overrides={**BUSY, function: answer})))
    assert getattr(read_load(nvml, "GPU-1", 1.0)[0], field) is None


def test_a_counter_that_was_reset_is_no_rate() -> None:
    nvml = Nvml(FakeNvml(Card("Card", "GPU-1", overrides=BUSY)))
    later = LinkCounters(at_s=1.0, sent_bytes=9_000 * KIB)
    assert read_load(nvml, "GPU-1", 2.0, later)[0].nvlink_sent_bytes_per_s is None


def test_cards_over_time() -> None:
    used = itertools.count(100, 100)
    first = Card("A", "GPU-1", lambda *_: memory(1000 * MIB, next(used) * MIB, 0, 50 * MIB))
    seen, _ = watch(FakeNvml(first, Card("B", "GPU-2")))
    for second in range(3):
        seen.look(float(second))
    report = kept(seen.report(PROGRAM))
    assert (report.outcome, report.environment.driver) == ("completed", "570.86.15")
    assert [card.name for card in report.cards] == ["A", "B"]
    assert report.cards[0].reserved_bytes == 50 * MIB
    assert [one.used_bytes for one in report.cards[1].readings] == [200 * MIB] * 3
    assert report.samples[-1].device_used_bytes == report.cards[0].readings[-1].used_bytes + 200 * MIB  # type: ignore[operator]
    assert report.params_total is None


def test_a_card_lost_while_it_is_watched() -> None:
    answers = [memory(1000 * MIB, 300 * MIB, 700 * MIB)] * 3  # one for the list, two looks

    def answer(*_: object) -> Any:
        return answers.pop() if answers else failure(15)()

    library = FakeNvml(Card("A", "GPU-1", answer), Card("B", "GPU-2"))
    seen, _ = watch(library)
    for second in range(5):
        seen.look(float(second))
    report = kept(seen.report(PROGRAM))
    lost, other = report.cards
    assert (report.outcome, lost.lost_at_s) == ("interrupted", 2.0)
    assert [(one.used_bytes, one.stale) for one in lost.readings] == [
        (300 * MIB, False),
        (300 * MIB, False),
        (300 * MIB, True),
    ]
    assert len(other.readings) == 5
    assert [(remark.code, remark.params["index"]) for remark in report.remarks] == [("gpu_lost", 0)]
    assert not seen.all_lost


def test_a_driver_that_fails_for_a_while() -> None:
    state = {"fails": False}

    def answer(*_: object) -> Any:
        return failure(999)() if state["fails"] else memory(1000 * MIB, 300 * MIB, 700 * MIB)

    seen, _ = watch(FakeNvml(Card("A", "GPU-1", answer)))
    for second, fails in enumerate([False, True, True, False]):
        state["fails"] = fails
        seen.look(float(second))
    report = kept(seen.report(PROGRAM))
    assert [one.stale for one in report.cards[0].readings] == [False, True, True, False]
    assert (report.outcome, report.cards[0].lost_at_s) == ("completed", None)
    assert [remark.code for remark in report.remarks] == ["nvml_failed"]


def test_a_long_watch_keeps_its_peak_and_stays_bounded() -> None:
    number = itertools.count()

    def answer(*_: object) -> Any:
        now = next(number)
        return memory(1000 * MIB, 999 * MIB if now == 1_001 else 100 * MIB + now % 7, 0)

    seen, _ = watch(FakeNvml(Card("A", "GPU-1", answer)))
    for second in range(3 * MAX_READINGS):
        seen.look(float(second))
    (card,) = kept(seen.report(PROGRAM)).cards
    assert len(card.readings) < MAX_READINGS
    assert card.peak_bytes == 999 * MIB
    assert card.readings[-1].at_s > 2.9 * MAX_READINGS


def test_a_process_in_another_namespace() -> None:
    stranger = [SimpleNamespace(pid=2**31 - 2, usedGpuMemory=5 * MIB)]
    seen, _ = watch(FakeNvml(Card("A", "GPU-1", processes=stranger)), pid=os.getpid())
    seen.look(0.0)
    report = kept(seen.report(PROGRAM))
    if Path("/proc").is_dir():
        assert [remark.params.get("reason") for remark in report.remarks] == ["pid_namespace"]
    assert report.readings.process_peak_bytes is None


@pytest.mark.parametrize(
    ("text", "cards"),
    [("all", ["GPU-1", "MIG-1", "MIG-2"]), ("gpu:0", ["GPU-1"]), ("GPU-1", ["GPU-1"]), ("MIG-2", ["MIG-2"])],
)
def test_targets(text: str, cards: list[str]) -> None:
    cut = Card("B", "GPU-2", mig=[Card("B MIG", "MIG-1"), Card("B MIG", "MIG-2")])
    found, pid = outside.target_of(text, Nvml(FakeNvml(Card("A", "GPU-1"), cut)))
    assert [card.uuid.value for card in found] == cards
    assert pid is None


@pytest.mark.parametrize("text", ["gpu:7", "GPU-x", "", "-1", "train.py", str(2**31 - 2)])
def test_a_target_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="given"):
        outside.target_of(text, Nvml(FakeNvml(Card("A", "GPU-1"))))


def test_a_process_is_watched_to_its_end_without_any_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(outside, "Nvml", lambda: Nvml(FakeNvml(overrides={"nvmlInit": failure(12)})))
    out = tmp_path / "report.json"
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.6)"])
    try:
        code = command.main(
            ["watch", str(child.pid), "--every", "0.1", "--seconds", "20", "--report", str(out)]
        )
    finally:
        child.wait()
    report = load_report(out.read_bytes())
    assert code == 0
    assert (report.environment.device, report.program.way) == ("cpu", "watch")
    assert report.readings.resident_peak_bytes
    assert report.samples
    assert "watch" in capsys.readouterr().err
    assert list((tmp_path / "data" / "live").iterdir()) == []


def test_no_driver_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "Nvml", lambda: Nvml(FakeNvml(overrides={"nvmlInit": failure(12)})))
    assert command.main(["watch", "gpu:0"]) == 1
    assert "gpu:0: There is no NVIDIA driver on this machine." in capsys.readouterr().err
    assert command.main(["watch", "gpu:x"]) == 2
    assert "'gpu:x' given; gpu: and a number" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--every", "--seconds"])
def test_bad_options(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["watch", "all", option, "0"]) == 2
    assert option in capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(outside, "Nvml", lambda: Nvml(FakeNvml(Card("A", "GPU-1"))))
    gone = tmp_path / "gone" / "report.json"
    assert command.main(["watch", "all", "--seconds", "0.05", "--every", "0.02", "--report", str(gone)]) == 0
    (spare,) = tmp_path.glob("headroom-*-report.json")
    assert json.loads(spare.read_text(encoding="utf-8"))["cards"][0]["uuid"] == "GPU-1"
    assert str(spare) in capsys.readouterr().err
