"""What the sidebar has above and below the form: undo and redo, the unit of sizes, the language."""

from collections.abc import Callable
from typing import Final

import streamlit as st

from ui.document import Document
from ui.history import History, recorded, redone, undone
from ui.language import prefer_language, prefer_unit, preferred_unit
from ui.state import edit
from ui.units import Unit
from ui.words import Words, languages, words_for

_HISTORY: Final = "history"
_UNIT_CHOICE: Final = "unit_choice"
_LANGUAGE_CHOICE: Final = "language_choice"


def remember(document: Document) -> None:
    """Take the question of this run into the history."""
    st.session_state[_HISTORY] = recorded(_history(), document)


def draw_undo(words: Words) -> None:
    """Two small buttons at the head of the sidebar."""
    history = _history()
    with st.container(key="quiet_history", horizontal=True, gap="small"):
        for name, possible, move in (
            ("undo", history.can_undo, undone),
            ("redo", history.can_redo, redone),
        ):
            st.button(
                words(f"tools.{name}"),
                key=name,
                type="tertiary",
                icon=f":material/{name}:",
                disabled=not possible,
                on_click=_step,
                args=(move,),
            )


def draw_unit(words: Words) -> None:
    """The unit that sizes are shown in, at the foot of the sidebar."""
    shown = preferred_unit().value
    if st.session_state.get(_UNIT_CHOICE) != shown:
        st.session_state[_UNIT_CHOICE] = shown
    st.segmented_control(
        words("tools.unit"),
        [unit.value for unit in Unit],
        required=True,
        key=_UNIT_CHOICE,
        help=words("tools.unit_help"),
        on_change=_take_unit,
    )


def draw_language(words: Words) -> None:
    """The language of the page, each by its own name."""
    if st.session_state.get(_LANGUAGE_CHOICE) != words.language:
        st.session_state[_LANGUAGE_CHOICE] = words.language
    st.segmented_control(
        words("language.label"),
        languages(),
        format_func=lambda code: words_for(code)("language.name"),
        required=True,
        key=_LANGUAGE_CHOICE,
        on_change=_take_language,
    )


def _history() -> History:
    found: History = st.session_state.get(_HISTORY, History())
    return found


def _step(move: Callable[[History], History]) -> None:
    """Move through the history, with what was typed at the same moment as its newest question."""

    def change(current: Document) -> Document:
        moved = move(recorded(_history(), current))
        st.session_state[_HISTORY] = moved
        return moved.document

    edit(change)


def _take_unit() -> None:
    """A browser that is still going to another page sends no choice; the one that was made stays."""
    if chosen := st.session_state[_UNIT_CHOICE]:
        prefer_unit(Unit(chosen))


def _take_language() -> None:
    """As for the unit: no choice changes nothing."""
    if chosen := st.session_state[_LANGUAGE_CHOICE]:
        prefer_language(chosen)
