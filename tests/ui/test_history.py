"""Undo and redo, as values and on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.link import decode
from tests.ui.conftest import checked
from tests.ui.test_page import current, link_of, link_shown
from ui.document import put
from ui.examples import STORIES, default_document, story_document
from ui.history import MOST_CHARACTERS, MOST_STEPS, History, recorded, redone, undone

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

    OpenPage = Callable[..., AppTest]

BATCH = "training.micro_batch"


def asked(*values: Any) -> History:
    history = History()
    for value in values:
        history = recorded(history, {"x": value})
    return history


def test_the_same_question_again_is_no_step() -> None:
    assert len(asked(1, 1, 2, 2).steps) == 2


def test_back_and_forth() -> None:
    history = asked(1, 2, 3)
    back = undone(undone(history))
    assert back.document == {"x": 1}
    assert not back.can_undo
    assert undone(back) == back
    assert redone(back).document == {"x": 2}
    assert redone(redone(redone(back))) == history


def test_a_new_question_forgets_what_was_undone() -> None:
    history = recorded(undone(undone(asked(1, 2, 3))), {"x": 4})
    assert not history.can_redo
    assert undone(history).document == {"x": 1}


def test_an_undone_step_is_not_recorded_as_a_new_one() -> None:
    back = undone(asked(1, 2, 3))
    assert recorded(back, back.document) == back


def test_the_history_is_bounded() -> None:
    history = asked(*range(MOST_STEPS + 5))
    assert len(history.steps) == MOST_STEPS
    assert history.document == {"x": MOST_STEPS + 4}
    large = "y" * (MOST_CHARACTERS // 3)
    history = asked(*(large + str(n) for n in range(9)))
    assert len(history.steps) == 2
    assert history.document == {"x": large + "8"}


def test_one_question_larger_than_the_bound_is_kept() -> None:
    assert len(asked(1, "y" * (MOST_CHARACTERS + 1)).steps) == 1


def test_the_page_undoes_and_redoes_with_the_link(open_page: OpenPage) -> None:
    page = open_page()
    assert page.button(key="undo").disabled
    assert page.button(key="redo").disabled
    checked(page.number_input(key=BATCH).set_value(2).run())
    checked(page.number_input(key=BATCH).set_value(3).run())
    checked(page.button(key="undo").click().run())
    assert current(page)["training"]["micro_batch"] == 2
    assert page.number_input(key=BATCH).value == 2
    opened, _ = decode(link_shown(page))
    assert opened is not None
    assert opened.training.micro_batch == 2
    checked(page.button(key="undo").click().run())
    assert current(page) == default_document()
    assert "s" not in page.query_params
    assert page.button(key="undo").disabled
    checked(page.button(key="redo").click().run())
    checked(page.button(key="redo").click().run())
    assert current(page)["training"]["micro_batch"] == 3
    assert page.button(key="redo").disabled


def test_a_run_without_an_edit_moves_nothing(open_page: OpenPage) -> None:
    page = open_page()
    checked(page.number_input(key=BATCH).set_value(2).run())
    checked(page.button(key="undo").click().run())
    for _ in range(3):
        checked(page.run())
    assert current(page) == default_document()
    assert not page.button(key="redo").disabled


def test_a_preset_can_be_undone(open_page: OpenPage) -> None:
    page = open_page()
    checked(page.selectbox(key="story").set_value(STORIES[1]).run())
    assert current(page) == story_document(STORIES[1])
    checked(page.button(key="undo").click().run())
    assert current(page) == default_document()
    assert page.selectbox(key="story").value == STORIES[0]


def test_what_was_typed_as_undo_was_pressed_is_the_step_undone(open_page: OpenPage) -> None:
    page = open_page()
    checked(page.number_input(key=BATCH).set_value(2).run())
    page.number_input(key=BATCH).set_value(5)
    checked(page.button(key="undo").click().run())
    assert current(page)["training"]["micro_batch"] == 2
    checked(page.button(key="redo").click().run())
    assert current(page)["training"]["micro_batch"] == 5


def test_an_opened_link_is_a_step_and_a_question_with_errors_too(open_page: OpenPage) -> None:
    page = open_page()
    checked(page.number_input(key="parallel.tensor").set_value(5).run())
    page.query_params["s"] = link_of(put(default_document(), BATCH, 4))
    checked(page.run())
    assert current(page)["training"]["micro_batch"] == 4
    checked(page.button(key="undo").click().run())
    assert current(page)["parallel"]["tensor"] == 5
    checked(page.button(key="undo").click().run())
    assert current(page) == default_document()
