"""`python -m profiler snapshot FILE`."""

import json
import pickle
import re
from pathlib import Path

import pytest

import profiler.__main__ as command
import run
from planner.units import MIB
from profiler.allocator.settings import AllocatorSettings
from profiler.snapshot import MemoryFileError, read_snapshot
from profiler.snapshot.text import error_line, lines
from tests.profiler.snapshot.summaries import stats, table
from tests.profiler.snapshot.writer import LINEAR, record


def write(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(data)
    return str(path)


def snapshot() -> bytes:
    """30 MiB of a linear layer and a request of 200 that a card of 100 cannot serve."""
    return record([(0, 30 * MIB), (1, 200 * MIB)], AllocatorSettings(), 100 * MIB, stacks={0: LINEAR}).data()


def test_the_report_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["snapshot", write(tmp_path, snapshot())]) == 0
    said = capsys.readouterr().out
    assert "device 0" in said
    assert "30.00 MiB  unknown  forward  /home/user/train/model.py:88 forward" in said
    assert "ran out (demand) at event 2: 200.00 MiB asked, 70.00 MiB free on the device" in said


def test_the_report_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["snapshot", write(tmp_path, snapshot()), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (device,) = document["devices"]
    assert device["peak_allocated_bytes"] == 30 * MIB
    assert device["now"]["reserved_bytes"] == 30 * MIB
    assert device["ooms"][0]["cause"] == "demand"
    assert device["largest"][0]["frame"] == LINEAR[2]
    assert document["source"] == "snapshot"


@pytest.mark.parametrize(
    "text", [table(stats(900 * MIB, 1000 * MIB)), json.dumps(stats(900 * MIB, 1000 * MIB))]
)
def test_printed_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert command.main(["snapshot", write(tmp_path, text.encode())]) == 0
    said = capsys.readouterr().out
    assert "900.00" in said
    assert "requests that could not be served: 1, retries: 3" in said


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "nothing in it"),
        (b"nothing of memory", "neither memory_stats nor memory_summary"),
        (b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.", "nothing in it was run"),
        (b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.", "name STACK_GLOBAL"),
        (snapshot()[:-40], "ends in the middle"),
        (b"\xff\xfejunk", "begins with ff fe 6a 75 6e 6b"),
        (pickle.dumps({"a": 10**40}), "a whole number of more than 64 bits"),
        (pickle.dumps({"a": 10**40}, 0), "offset 11"),
    ],
)
def test_what_cannot_be_read_is_wrong_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, words: str
) -> None:
    assert command.main(["snapshot", write(tmp_path, data)]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["snapshot", str(tmp_path / "none.pickle")]) == 2
    assert "none.pickle" in capsys.readouterr().err


def test_every_remark_can_be_told() -> None:
    whole = record([(0, 30 * MIB), (1, 30 * MIB), (0, -1)], AllocatorSettings())
    said = "\n".join(lines(read_snapshot(whole.cut(2).data())))
    assert "the history starts with 60.00 MiB in use" in said
    whole.values["device_traces"] = []
    assert "no history was recorded" in "\n".join(lines(read_snapshot(whole.data())))


def test_an_error_is_told_with_its_place() -> None:
    problem = MemoryFileError("bad_value", "segments[0].total_size", given="-1", allowed="0 to 5")
    assert error_line(problem) == "a value that cannot be: segments[0].total_size: given -1; allowed 0 to 5"


def test_every_reason_of_a_refusal_is_a_sentence() -> None:
    folder = run.ROOT / "profiler" / "snapshot"
    told = {"took_too_long", "not_read"}  # only of the process that reads apart from the page
    codes = set().union(
        *(
            re.findall(r'MemoryFileError\("(\w+)"', path.read_text(encoding="utf-8"))
            for path in folder.glob("*.py")
        )
    )
    assert len(codes) > 10
    assert (
        sorted(code for code in codes - told if error_line(MemoryFileError(code)) == code.replace("_", " "))
        == []
    )
