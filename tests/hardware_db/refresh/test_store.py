"""The last refresh on disk: what was written is read; what was not is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from hardware_db import load_tables
from hardware_db.refresh import FILE_NAME, SOURCES, Refresh, StoreError, load, refresh, save
from tests.hardware_db.refresh.cases import Answers, recorded

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)


@pytest.fixture
def found() -> Refresh:
    source = next(source for source in SOURCES if source.id == "skypilot_verda")
    answers = Answers({"/verda/": recorded("verda.csv")})
    return refresh([source], load_tables().offers, get=answers, now=NOW)


def test_round_trip(tmp_path: Path, found: Refresh) -> None:
    assert load(tmp_path / "data") is None
    save(tmp_path / "data", found)
    assert load(tmp_path / "data") == found
    assert [path.name for path in (tmp_path / "data").iterdir()] == [FILE_NAME]


@pytest.mark.parametrize("change", ["version", "price", "kind", "date", "cut"])
def test_a_file_that_was_changed_is_refused(tmp_path: Path, found: Refresh, change: str) -> None:
    save(tmp_path, found)
    path = tmp_path / FILE_NAME
    tree = json.loads(path.read_text(encoding="utf-8"))
    if change == "version":
        tree["version"] = 2
    elif change == "price":
        tree["offers"][0]["usd_per_hour"] = -1
    elif change == "kind":
        tree["offers"][0]["price_kind"] = "free"
    elif change == "date":
        tree["offers"][0]["date"] = "yesterday"
    text = json.dumps(tree)
    path.write_text(text[:50] if change == "cut" else text, encoding="utf-8")
    with pytest.raises(StoreError):
        load(tmp_path)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, found: Refresh) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        save(blocked, found)
    assert caught.value.code == "not_writable"
