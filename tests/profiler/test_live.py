"""Measurements under way on this machine: listed while they run, gone when they end or were killed."""

import json
import os
import time
from pathlib import Path

import pytest

from profiler.live import FOLDER, REPORT_NAME, STALE_AFTER_S, announce, data_folder, listed
from profiler.report_file import write_report
from profiler.report_parts import Program
from tests.profiler.hook.test_collect import BEGIN, CUDA, step
from tests.profiler.reports import TWO_PHASES

WRAP = Program(way="wrap", name="train.py")


def test_listed_while_it_runs(tmp_path: Path) -> None:
    data, work = tmp_path / "data", tmp_path / "work"
    work.mkdir()
    with announce(work, WRAP, data) as told:
        (live,) = listed(data)
        assert (live.way, live.name, live.pid, live.folder) == (
            "wrap",
            "train.py",
            os.getpid(),
            work.resolve(),
        )
        assert live.report() is None
        (work / "1.lines").write_text(
            "\n".join(map(json.dumps, [BEGIN, CUDA, step(1), step(2)])), encoding="utf-8"
        )
        report = live.report()
        assert report is not None
        assert [memory.step for memory in report.memory_by_step] == [1, 2]
        assert report.outcome == "completed"  # no last words yet, and none are missed
        told.beat()
    assert listed(data) == ()
    assert live.report() is not None


def test_a_report_file_in_the_folder_is_the_report(tmp_path: Path) -> None:
    with announce(tmp_path, Program(way="watch", name="all"), tmp_path / "data"):
        write_report(TWO_PHASES, tmp_path / REPORT_NAME)
        (live,) = listed(tmp_path / "data")
        assert live.report() == TWO_PHASES


def test_what_a_killed_one_left_is_taken_away(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    with announce(tmp_path, WRAP, tmp_path):
        (path,) = folder.iterdir()
        text = path.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    old = time.time() - STALE_AFTER_S - 1
    os.utime(path, (old, old))
    assert listed(tmp_path) == ()
    assert not path.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"folder": 1}', "\x00"])
def test_a_file_that_is_no_entry_is_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "x.json").write_text(text, encoding="utf-8")
    assert listed(tmp_path) == ()


def test_where_nothing_can_be_written_nothing_is_listed(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file", encoding="utf-8")
    with announce(tmp_path, WRAP, tmp_path / "data") as told:
        told.beat()
        assert listed(tmp_path / "data") == ()


@pytest.mark.parametrize(
    ("variables", "platform", "place"),
    [
        ({"HEADROOM_DATA": "/x"}, "linux", "/x"),
        ({}, "linux", "/home/u/.local/share/headroom"),
        ({"XDG_DATA_HOME": "/d"}, "linux", "/d/headroom"),
        ({"XDG_DATA_HOME": "d"}, "linux", "/home/u/.local/share/headroom"),
        ({}, "darwin", "/home/u/Library/Application Support/Headroom"),
        ({"APPDATA": "/a"}, "win32", "/a/Headroom"),
    ],
)
def test_the_data_folder(variables: dict[str, str], platform: str, place: str) -> None:
    assert data_folder(variables, platform=platform, home=Path("/home/u")) == Path(place)
