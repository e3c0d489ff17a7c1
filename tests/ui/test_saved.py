"""The saved list: where it lies, what it survives, and that nobody's entry is lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from ui import saved
from ui.saved import (
    FILE_NAME,
    LONGEST_NAME,
    MOST_BYTES,
    MOST_ENTRIES,
    Entry,
    SavedError,
    SavedFile,
    data_folder,
    new_entry,
    one_line,
    with_entry,
    with_name,
    without,
)

HOME = Path("/home/somebody") if sys.platform != "win32" else Path("C:/Users/somebody")


def entry(n: int, document: dict[str, object] | None = None) -> Entry:
    return Entry(
        id=f"id{n}", name=f"name {n}", document=document or {"n": n}, saved_at=f"2026-01-01T00:00:{n % 60:02}"
    )


def save(file: SavedFile, one: Entry) -> None:
    file.update(lambda entries: with_entry(entries, one))


@pytest.mark.parametrize(
    ("platform", "variables", "wanted"),
    [
        ("linux", {}, HOME / ".local" / "share" / "headroom"),
        ("linux", {"XDG_DATA_HOME": str(HOME / "x")}, HOME / "x" / "headroom"),
        ("linux", {"XDG_DATA_HOME": "relative"}, HOME / ".local" / "share" / "headroom"),
        ("darwin", {}, HOME / "Library" / "Application Support" / "Headroom"),
        ("win32", {"APPDATA": str(HOME / "Roaming")}, HOME / "Roaming" / "Headroom"),
        ("win32", {}, HOME / "AppData" / "Roaming" / "Headroom"),
        ("linux", {"HEADROOM_DATA": str(HOME / "mine"), "XDG_DATA_HOME": "/x"}, HOME / "mine"),
        ("win32", {"HEADROOM_DATA": str(HOME / "mine"), "APPDATA": "/x"}, HOME / "mine"),
    ],
)
def test_the_folder_is_the_systems_own(platform: str, variables: dict[str, str], wanted: Path) -> None:
    assert data_folder(variables, platform=platform, home=HOME) == wanted


def test_nothing_is_made_until_something_is_saved(tmp_path: Path) -> None:
    file = SavedFile(tmp_path / "a" / "b")
    assert file.read().entries == ()
    assert not (tmp_path / "a").exists()
    save(file, entry(1))
    assert SavedFile(tmp_path / "a" / "b").read().entries == (entry(1),)


def test_save_rename_delete_and_put_back(tmp_path: Path) -> None:
    file = SavedFile(tmp_path)
    for n in (1, 3, 2):
        save(file, entry(n))
    assert [e.id for e in file.read().entries] == ["id3", "id2", "id1"]
    file.update(lambda entries: with_name(entries, "id2", " new\n name "))
    assert file.read().entries[1].name == "new name"
    taken = file.read().entries[1]
    file.update(lambda entries: without(entries, "id2"))
    assert [e.id for e in file.read().entries] == ["id3", "id1"]
    save(file, taken)
    assert [e.id for e in file.read().entries] == ["id3", "id2", "id1"]


def test_a_name_is_one_line_of_text() -> None:
    assert one_line(" a\x00b\n\tc\u202e ") == "a b c"
    assert len(one_line("x" * 500)) == LONGEST_NAME
    assert with_name((entry(1),), "id1", " \n ") == (entry(1),)


def test_an_entry_is_kept_as_it_was_given(tmp_path: Path) -> None:
    document = {"name": 'x"<b>\u4e2d\ud800', "f": float("inf"), "deep": [{"a": None}]}
    one = new_entry("<i>\u4e2d", document)
    save(SavedFile(tmp_path), one)
    assert SavedFile(tmp_path).read().entries == (one,)


def test_two_hundred_and_no_more(tmp_path: Path) -> None:
    file = SavedFile(tmp_path)
    file.update(lambda _: tuple(entry(n) for n in range(MOST_ENTRIES)))
    with pytest.raises(SavedError) as caught:
        save(file, entry(MOST_ENTRIES))
    assert (caught.value.code, caught.value.detail) == ("full", str(MOST_ENTRIES))
    assert len(file.read().entries) == MOST_ENTRIES


def test_a_list_that_would_be_too_large_stays_as_it_was(tmp_path: Path) -> None:
    file = SavedFile(tmp_path)
    save(file, entry(1))
    with pytest.raises(SavedError, match="too_large"):
        save(file, entry(2, {"x": "y" * MOST_BYTES}))
    assert file.read().entries == (entry(1),)
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE_NAME, f"{FILE_NAME}.lock"]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[]",
        b'{"version": 1}',
        b'{"version": 1, "entries": 3}',
        b"[" * 100_000,
        b" " * (MOST_BYTES + 1),
    ],
)
def test_a_file_that_cannot_be_read_is_set_aside_unchanged(tmp_path: Path, raw: bytes) -> None:
    file = SavedFile(tmp_path)
    file.path.write_bytes(raw)
    reading = file.read()
    assert reading.entries == ()
    assert reading.set_aside is not None
    assert (tmp_path / reading.set_aside).read_bytes() == raw
    save(file, entry(1))
    assert file.read() == saved.Reading(entries=(entry(1),))


def test_what_can_be_read_is_kept_and_the_whole_file_set_aside(tmp_path: Path) -> None:
    file = SavedFile(tmp_path)
    save(file, entry(1))
    values = json.loads(file.path.read_text(encoding="utf-8"))
    values["entries"] += [7, {"id": "x"}, {"id": "", "name": "", "saved_at": "", "document": {}}]
    file.path.write_text(json.dumps(values), encoding="utf-8")
    reading = file.read()
    assert reading.entries == (entry(1),)
    assert reading.set_aside is not None
    assert len(json.loads((tmp_path / reading.set_aside).read_text(encoding="utf-8"))["entries"]) == 4
    assert file.read() == saved.Reading(entries=(entry(1),))


def test_the_list_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    file = SavedFile(tmp_path)
    raw = '{"version": 9, "entries": []}'
    file.path.write_text(raw, encoding="utf-8")
    for action in (file.read, lambda: save(file, entry(1))):
        with pytest.raises(SavedError, match="newer"):
            action()
    assert file.path.read_text(encoding="utf-8") == raw


def test_a_folder_that_cannot_be_written_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    file = SavedFile(tmp_path / "file" / "folder")
    with pytest.raises(SavedError) as caught:
        save(file, entry(1))
    assert caught.value.code == "not_writable"
    assert str(tmp_path) in caught.value.detail


def test_a_write_that_breaks_off_leaves_the_old_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SavedFile(tmp_path)
    save(file, entry(1))

    def broken(_descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(SavedError, match="not_writable"):
        save(file, entry(2))
    assert file.read().entries == (entry(1),)
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE_NAME, f"{FILE_NAME}.lock"]


def test_a_list_somebody_else_is_writing_is_waited_for_and_then_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved, "LOCK_LIMIT_S", 0.1)
    file = SavedFile(tmp_path)
    with file._locked(), pytest.raises(SavedError, match="busy"):
        save(file, entry(1))
    save(file, entry(1))


def test_sessions_that_write_at_once_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "LOCK_LIMIT_S", 300)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: save(SavedFile(tmp_path), entry(n)), range(40)))
    assert {e.id for e in SavedFile(tmp_path).read().entries} == {f"id{n}" for n in range(40)}


def _save_some(folder: str, numbers: range) -> None:
    saved.LOCK_LIMIT_S = 300  # type: ignore[misc]  # a busy machine says nothing about the lock
    for n in numbers:
        save(SavedFile(Path(folder)), entry(n))


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A page that another test has run stands there as the program, and each child would begin with it.
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    spawn = multiprocessing.get_context("spawn")
    others = [
        spawn.Process(target=_save_some, args=(str(tmp_path), range(start, start + 10))) for start in (0, 10)
    ]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert [other.exitcode for other in others] == [0, 0]
    assert {e.id for e in SavedFile(tmp_path).read().entries} == {f"id{n}" for n in range(20)}
