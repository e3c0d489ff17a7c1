"""Report files on a full disk, cut short, and from a newer version."""

import json
from pathlib import Path
from typing import Any

import pytest

from profiler import report_file
from profiler.report import REPORT_VERSION, ReportError, dump_report
from profiler.report_file import open_report, whole_values, write_report
from tests.profiler.reports import TWO_PHASES

TEXT = dump_report(TWO_PHASES)


def changed(**values: Any) -> bytes:
    return json.dumps({**json.loads(TEXT), **values}).encode()


def test_a_report_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("an older one", encoding="utf-8")
    written = write_report(TWO_PHASES, path)
    assert (written.path, written.problem) == (path, "")
    assert open_report(path.read_bytes()) == TWO_PHASES
    assert [one.name for one in tmp_path.iterdir()] == ["report.json"]


def full_disk(only: str) -> Any:
    """Writing that fails where the path is below `only`, after half of the text."""
    original = report_file._write_whole

    def write(text: str, path: Path) -> None:
        if str(path).startswith(only):
            raise OSError(28, "No space left on device")
        original(text, path)

    return write


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, spare = tmp_path / "disk", tmp_path / "spare"
    disk.mkdir()
    spare.mkdir()
    (disk / "report.json").write_text("an older one", encoding="utf-8")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(spare))
    monkeypatch.setattr(report_file, "_write_whole", full_disk(str(disk)))
    written = write_report(TWO_PHASES, disk / "report.json")
    assert "No space left" in written.problem
    assert written.path is not None
    assert open_report(written.path.read_bytes()) == TWO_PHASES
    assert (disk / "report.json").read_text(encoding="utf-8") == "an older one"


def test_nowhere_to_write_is_said_not_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "gone"))
    written = write_report(TWO_PHASES, tmp_path / "no" / "report.json")
    assert written.path is None
    assert "FileNotFoundError" in written.problem


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_half_a_file_is_never_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text goes beside the file first; on a device that is always full that fails and is taken away."""
    path = tmp_path / "report.json"
    original = Path.open

    def onto_a_full_device(one: Path, *arguments: Any, **more: Any) -> Any:
        return original(Path("/dev/full") if one.name.endswith(".part") else one, *arguments, **more)

    monkeypatch.setattr(Path, "open", onto_a_full_device)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    written = write_report(TWO_PHASES, path)
    assert written.path is None
    assert "No space left" in written.problem
    assert not path.exists()


def test_of_a_newer_version_what_is_known_is_kept() -> None:
    phases = json.loads(TEXT)["phases"]
    phases[0]["aura"] = "green"
    newer = open_report(changed(version=REPORT_VERSION + 1, dreams=[1], phases=phases))
    assert newer.phases == TWO_PHASES.phases
    assert newer.remarks[-1].code == "report_newer"
    assert newer.remarks[-1].params == {"version": REPORT_VERSION + 1, "dropped": 2}


def test_a_value_that_this_version_cannot_have_is_left_out_with_its_field() -> None:
    newer = open_report(
        changed(version=9, memory_by_step=[{"step": 1, "time_s": "long"}], outcome="transcended")
    )
    assert newer.phases == TWO_PHASES.phases
    assert newer.memory_by_step == ()


@pytest.mark.parametrize("version", [0, -1, "3", True, None, 1.5])
def test_other_versions_are_none(version: object) -> None:
    with pytest.raises(ReportError) as caught:
        open_report(changed(version=version))
    assert caught.value.code in {"wrong_version", "bad_value"}


def test_a_newer_file_of_which_nothing_fits_is_refused() -> None:
    with pytest.raises(ReportError) as caught:
        open_report(changed(version=9, environment=None, options=None, scenario=1))
    assert caught.value.code == "wrong_version"


def test_an_older_report_is_opened() -> None:
    document = json.loads(TEXT)
    for name in ("program", "memory_by_step", "overhead", "communication", "ranks", "cards"):
        del document[name]
    older = open_report(json.dumps(document | {"version": 1}).encode())
    assert older.phases == TWO_PHASES.phases


def test_a_file_cut_anywhere_gives_what_came_before_or_is_refused() -> None:
    """Every 23rd byte; once the phases were written they are kept."""
    after_phases = TEXT.index('"resting_allocated_bytes"')
    opened, refused = 0, set()
    for cut in range(1, len(TEXT) - 2, 23):
        try:
            report = open_report(TEXT[:cut].encode())
        except ReportError as error:
            refused.add((error.code, cut <= after_phases))
            continue
        opened += 1
        assert report.remarks[-1].code == "report_cut"
        assert report.remarks[-1].params["bytes"] == cut
        if cut > after_phases + 30:
            assert report.phases == TWO_PHASES.phases
    assert opened > 10
    assert refused == {("not_json", True)}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a": 1, "b": [1, 2, 3', {"a": 1, "b": [1, 2]}),
        ('{"a": 1, "b": {"c": 1, "d": 2', {"a": 1}),
        ('{"a": ", [", "b": "x\\"y, ', {"a": ", ["}),
        ('{"a": 1', None),
        ("[1, 2", None),
        ("", None),
    ],
)
def test_whole_values(text: str, values: object) -> None:
    assert whole_values(text) == values
