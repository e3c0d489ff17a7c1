"""The Compare page as Streamlit runs it: choosing, keeping, opening, saving, and what cannot be."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import charts, checked, headline, html
from tests.ui.test_page import current, link_of
from ui.compare.listing import PAGE, as_markdown
from ui.document import put, put_all
from ui.examples import STORIES, default_document, story_document
from ui.saved import Entry, SavedFile

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "<img src=x onerror=alert(1)> **b** :red[x]"


def _compare() -> None:
    from ui.language import current_words  # noqa: PLC0415
    from ui.pages import compare  # noqa: PLC0415

    current_words()
    compare.draw()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def page() -> AppTest:
    return checked(AppTest.from_function(_compare, default_timeout=60).run())


def pick(page: AppTest, letter: str, option: str) -> AppTest:
    return checked(page.selectbox(key=f"compare_menu_{letter}").set_value(option).run())


def press(page: AppTest, key: str) -> AppTest:
    return checked(page.button(key=key).click().run())


def sums(page: AppTest) -> list[float]:
    """GiB of every bar, top to bottom."""
    found: dict[int, float] = {}
    for trace in charts(page)["compare_bars"]["data"]:
        if trace["type"] == "bar":
            for y, x in zip(trace["y"], trace["x"], strict=True):
                found[y] = found.get(y, 0) + x
    return [found[y] for y in sorted(found, reverse=True)]


def saved(folder: Path) -> list[Entry]:
    return list(SavedFile(folder).read().entries)


def test_it_opens_with_changes_to_the_open_scenario(page: AppTest) -> None:
    assert re.match(r"B (saves|needs) .* GiB", headline(page))
    assert len(sums(page)) == 3
    assert str(page.selectbox(key="compare_menu_B").value).startswith("change:")


def test_a_story_beside_the_open_one(page: AppTest) -> None:
    pick(page, "B", f"story:{STORIES[1]}")
    pick(page, "C", "none")
    assert len(sums(page)) == 2
    assert "Alpaca on four RTX 3090" in html(page)
    assert "nothing chosen" in html(page)


def test_nothing_beside_it_says_what_to_do(page: AppTest) -> None:
    pick(page, "B", "none")
    pick(page, "C", "none")
    assert headline(page).startswith("Choose a second")
    assert len(sums(page)) == 1


def test_keep_then_edit_compares_before_and_after(page: AppTest) -> None:
    press(page, "keep_B")
    checked(page.number_input(key="training.micro_batch").set_value(2).run())
    assert page.selectbox(key="compare_menu_B").value == "kept"
    a, b, *_ = sums(page)
    assert a > b
    assert "Micro-batch 2 → 1" in html(page)


def test_open_swaps_and_undo_goes_back(page: AppTest) -> None:
    pick(page, "B", f"story:{STORIES[1]}")
    press(page, "swap_B")
    assert current(page) == story_document(STORIES[1])
    assert page.session_state["compare_documents"]["B", "kept"] == default_document()
    press(page, "undo")
    assert current(page) == default_document()


def test_a_pasted_link_and_a_broken_one(page: AppTest) -> None:
    pick(page, "B", "brought")
    document = put(default_document(), "training.micro_batch", 3)
    checked(page.text_input(key="compare_link_B").set_value(f"http://x/?s={link_of(document)}").run())
    assert page.session_state["compare_documents"]["B", "brought"] == document
    assert "Micro-batch 1 → 3" in html(page)
    checked(page.text_input(key="compare_link_B").set_value("http://x/?s=1.AAAA").run())
    assert 'class="msg bad" role="alert"' in html(page)
    assert "Micro-batch 1 → 3" in html(page)


def test_an_uploaded_file(page: AppTest) -> None:
    pick(page, "C", "brought")
    raw = json.dumps(put(default_document(), "training.micro_batch", 7)).encode()
    page.file_uploader(key="compare_file_C").set_value(("x.json", raw, "application/json"))
    checked(page.run())
    found = page.session_state["compare_documents"]["C", "brought"]
    assert found["training"]["micro_batch"] == 7


def test_a_question_with_errors_beside_it_is_said_there(page: AppTest) -> None:
    pick(page, "B", "brought")
    pick(page, "C", "none")
    wrong = put(default_document(), "parallel.tensor", 5)
    checked(page.text_input(key="compare_link_B").set_value(link_of(wrong)).run())
    assert len(sums(page)) == 1
    assert '<span class="bad">' in html(page)


def test_errors_of_the_open_one_keep_the_last_comparison(page: AppTest) -> None:
    before = sums(page)
    checked(page.number_input(key="parallel.tensor").set_value(5).run())
    assert 'role="alert"' in html(page)
    assert page.get_by_key("stale") is not None
    assert sums(page) == before


def test_save_open_rename_delete_and_put_back(page: AppTest, folder: Path) -> None:
    page.text_input(key="save_name").set_value(EVIL)
    press(page, "save")
    (one,) = saved(folder)
    assert (one.name, one.document) == (EVIL, default_document())
    assert "<img" not in html(page)
    assert "&lt;img src=x" in html(page)
    assert as_markdown(EVIL) in page.button(key=f"open_{one.id}").label
    checked(page.number_input(key="training.micro_batch").set_value(2).run())
    press(page, f"as_B_{one.id}")
    assert page.selectbox(key="compare_menu_B").value == f"saved:{one.id}"
    assert "Micro-batch 2 → 1" in html(page)
    press(page, f"open_{one.id}")
    assert current(page) == default_document()
    page.text_input(key=f"rename_{one.id}").set_value("mine")
    press(page, f"rename_do_{one.id}")
    assert [e.name for e in saved(folder)] == ["mine"]
    press(page, f"delete_{one.id}")
    assert saved(folder) == []
    assert "What B showed is no longer there" in html(page)
    press(page, "put_back")
    assert [(e.id, e.name) for e in saved(folder)] == [(one.id, "mine")]
    assert page.selectbox(key="compare_menu_B").value == f"saved:{one.id}"


def test_a_scenario_without_a_name_gets_one(page: AppTest, folder: Path) -> None:
    press(page, "save")
    assert saved(folder)[0].name.startswith("Full fine-tune of Llama-3.1-8B on ")


def test_two_sessions_see_each_others_scenarios(page: AppTest, folder: Path) -> None:
    other = checked(AppTest.from_function(_compare, default_timeout=60).run())
    press(page, "save")
    press(other, "save")
    checked(page.run())
    assert len(saved(folder)) == 2
    assert "2 scenarios" in html(page)


def test_a_folder_that_cannot_be_written_keeps_the_list_for_the_session(page: AppTest, folder: Path) -> None:
    folder.write_text("a file where the folder should be", encoding="utf-8")
    page.text_input(key="save_name").set_value("mine")
    press(page, "save")
    text = html(page)
    assert "cannot be written" in text
    assert str(folder) in text
    assert "<b>mine</b>" in text
    assert "only in this session" in text
    entry_id = page.session_state["saved_session"][0].id
    press(page, f"delete_{entry_id}")
    assert "<b>mine</b>" not in html(page)
    press(page, "put_back")
    assert "<b>mine</b>" in html(page)


def test_a_list_that_cannot_be_read_is_said_to_be_kept(page: AppTest, folder: Path) -> None:
    folder.mkdir()
    (folder / "saved.json").write_text("{", encoding="utf-8")
    checked(page.run())
    assert "saved-unreadable-" in html(page)
    press(page, "save")
    assert len(saved(folder)) == 1


def test_a_long_list_comes_in_pages(page: AppTest, folder: Path) -> None:
    entries = tuple(
        Entry(id=f"i{n}", name=f"n{n}", document=default_document(), saved_at=f"2026-01-01T00:00:{n:02}")
        for n in range(PAGE + 2)
    )
    SavedFile(folder).update(lambda _: entries)
    checked(page.run())
    rows = [button for button in page.button if str(button.key).startswith("open_")]
    assert len(rows) == PAGE


def test_a_saved_scenario_that_no_longer_parses_is_shown_as_such(page: AppTest, folder: Path) -> None:
    bad = Entry(
        id="i", name="old", document={"version": 1, "task": "nonsense"}, saved_at="2026-01-01T00:00:00"
    )
    SavedFile(folder).update(lambda _: (bad,))
    checked(page.run())
    assert "cannot be answered as it is" in html(page)
    press(page, "as_C_i")
    assert '<span class="bad">' in html(page)


def test_sizes_in_gb_reach_every_part(page: AppTest) -> None:
    before = sums(page)
    checked(page.segmented_control(key="unit_choice").set_value("GB").run())
    assert sums(page) == pytest.approx([size * 2**30 / 1e9 for size in before])
    assert "GiB" not in html(page)


def test_a_serving_scenario_compares_too(page: AppTest) -> None:
    served = story_document("llama-70b-awq-two-l40s")
    page.query_params["s"] = link_of(served)
    checked(page.run())
    pick(page, "B", "brought")
    changed = put_all(served, {"serving.kv_cache": "fp8"})
    checked(page.text_input(key="compare_link_B").set_value(link_of(changed)).run())
    assert "KV cache fp16 → fp8" in html(page) or "KV cache not set → fp8" in html(page)
    assert "tokens fit" in html(page)
