"""Memory snapshots on the Measure page: opened, drawn, laid beside the question, refused, closed."""

from __future__ import annotations

import ast
import pickle
from typing import TYPE_CHECKING

import pytest

import run
from planner.units import MIB
from profiler.allocator.settings import AllocatorSettings
from profiler.snapshot import MemoryFileError, read_memory_file
from tests.profiler.fake_nvml import FakeNvml, failure
from tests.profiler.snapshot.writer import LINEAR, STATES, record
from tests.ui.conftest import charts, checked, headline, html
from tests.ui.measure_driver import has, on_machine, opened, press
from ui.trace import snapshots
from ui.words import Words, words_for

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

EVENTS = [(0, 30 * MIB), (1, 8 * MIB), (2, 40 * MIB), (2, -1), (3, 9 * MIB)]
STATS = '{"allocated_bytes.all.current": 1048576, "allocated_bytes.all.peak": 3145728, "num_ooms": 2}'


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    on_machine(monkeypatch, FakeNvml(overrides={"nvmlInit": failure(12)}))
    monkeypatch.setattr(snapshots, "read_apart", read_memory_file)


@pytest.fixture
def words() -> Words:
    return words_for("en")


def snapshot(capacity_mib: int | None = None) -> bytes:
    capacity = None if capacity_mib is None else capacity_mib * MIB
    events = EVENTS if capacity is None else [*EVENTS, (9, 900 * MIB)]
    return record(events, AllocatorSettings(), capacity, stacks={0: LINEAR, 1: STATES}).data()


def upload(page: AppTest, data: bytes, name: str = "run.pickle") -> AppTest:
    keys = [each.key or "" for each in page.file_uploader]
    key = next(key for key in keys if key.startswith("snapshot_upload"))
    return checked(page.file_uploader(key=key).set_value((name, data, "application/octet-stream")).run())


def test_a_snapshot_is_drawn_as_a_trace_is() -> None:
    page = upload(opened(), snapshot())
    assert headline(page) == "Recorded: at most 0.0762 GiB allocated, 0.0879 reserved"
    text = html(page)
    assert "Memory snapshot, run.pickle." in text
    assert "snapshot_timeline" in charts(page)
    assert "Optimizer states" in text
    assert "Owner not recorded" in text
    assert "model.py:88 forward" in text
    assert "/home/user" not in text
    assert "None. Every request was served." in text
    assert "Beside the question on the left" in text
    assert any("largest blocks at the peak" in expander.label for expander in page.expander)


def test_it_is_closed_and_the_page_is_as_before() -> None:
    page = press(upload(opened(), snapshot()), "snapshot_close")
    assert headline(page).startswith("Ready")
    assert not has(page, "snapshot_close")
    assert "snapshot_timeline" not in charts(page)


def test_a_run_that_ran_out_says_where_and_why() -> None:
    page = upload(opened(), snapshot(capacity_mib=200))
    text = html(page)
    assert "Ran out of memory" in text
    assert "demand, there was not that much" in text
    assert "<td>0.879</td>" in text


def test_printed_statistics_are_opened_too() -> None:
    page = upload(opened(), STATS.encode(), "stats.json")
    assert headline(page).startswith("Recorded: at most 0.0029 GiB allocated")
    text = html(page)
    assert "memory_stats, stats.json." in text
    assert "The file has no history" in text
    assert "2, as the counter says." in text


def test_text_can_be_pasted() -> None:
    page = opened()
    page.text_area(key=snapshots.TEXT).set_value(STATS)
    page = press(page, "snapshot_read")
    assert "memory_stats, pasted text." in html(page)


class Harmful:
    """Would end the process if it were unpickled."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return exit, (3,)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pickle.dumps({"segments": Harmful()}), "Nothing in it was run"),
        (b"\x80\x04" + b"garbage" * 50, "It could not be read|no pickle|refused|ends in the middle"),
        (snapshot()[:-40], "ends in the middle"),
        (b"hello there", "neither memory_stats nor memory_summary"),
        (pickle.dumps([1, 2, 3]), "no memory snapshot"),
        (b"\x1f\x8b" + bytes(40), "compressed"),
    ],
)
def test_a_file_that_is_none_is_refused_and_the_page_goes_on(data: bytes, said: str) -> None:
    page = upload(opened(), data)
    text = html(page)
    assert any(each in text for each in said.split("|")), text[-3000:]
    assert headline(page).startswith("Ready")
    page = upload(page, snapshot(), "good.pickle")
    assert headline(page).startswith("Recorded")
    assert 'role="alert"' not in html(page)


def test_a_file_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []

    def reader(data: bytes) -> None:
        reads.append(data)
        raise MemoryFileError("took_too_long", seconds=120)

    monkeypatch.setattr(snapshots, "read_apart", reader)
    page = upload(opened(), b"abc")
    page = checked(page.run())
    assert "took more than 120 s" in html(page)
    assert reads == [b"abc"]


def test_several_devices_are_told_apart() -> None:
    one = record(EVENTS, AllocatorSettings()).values
    one = one | {"device_traces": 2 * one["device_traces"]}
    page = upload(opened(), pickle.dumps(one))
    control = next(each for each in page.segmented_control if (each.key or "").startswith("snapshot_device"))
    assert len(control.options) == 2
    page = checked(control.set_value(1).run())
    assert headline(page).startswith("Recorded")


# ---------------------------------------------------------------- words


def codes(function: str, folder: str = "profiler/snapshot") -> set[str]:
    """Codes given to a name in the reader's source."""
    found = set()
    for path in (run.ROOT / folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == function:
                given = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "code")]
                found |= {each.value for each in given if isinstance(each, ast.Constant)}
    return {code for code in found if isinstance(code, str)}


def test_every_problem_and_remark_has_words(words: Words) -> None:
    problems, remarks = codes("MemoryFileError"), codes("Remark")
    assert len(problems) > 8
    assert len(remarks) > 5
    assert sorted(code for code in problems if not words.has(f"snapshot.problem.{code}")) == []
    assert sorted(code for code in remarks if not words.has(f"snapshot.remark.{code}")) == []


def test_a_problem_names_its_place_and_is_escaped(words: Words) -> None:
    problem = MemoryFileError("bad_value", "segments[3].<b>", given="-1", allowed="0 to 9")
    text = snapshots.problem_text(problem, words)
    assert "segments[3].&lt;b&gt;" in text
    assert "-1" in text
    assert "brand_new" in snapshots.problem_text(MemoryFileError("brand_new"), words)


@pytest.mark.parametrize("code", sorted(codes("MemoryFileError")))
def test_every_problem_can_be_said(words: Words, code: str) -> None:
    assert snapshots.problem_text(MemoryFileError(code), words)
