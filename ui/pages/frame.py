"""What every page begins with: the question taken in, planned, and the form drawn beside it."""

from dataclasses import dataclass
from typing import Any, Final

import streamlit as st

from planner.plan_types import Plan
from ui.answers import answer
from ui.charts.base import CONFIG
from ui.inputs import Desk, draw_inputs
from ui.language import current_words
from ui.state import begin_run
from ui.tools import draw_language, draw_undo, draw_unit, remember
from ui.words import Words

_GOOD: Final = "newest_good_plan"
_GOOD_DOCUMENT: Final = "newest_good_document"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What a page draws from.

    Attributes:
        desk: The form with its document, answer and messages.
        words: The words of the user's language.
        plan: The plan to draw: of this question, or of the last one without errors; None where there is none.
        document: The question that `plan` answers.
        stale: Whether `plan` answers an earlier question.
    """

    desk: Desk
    words: Words
    plan: Plan | None
    document: dict[str, Any]
    stale: bool


def begin() -> Frame:
    """Take in the question, plan it, and draw the form."""
    frame = take_in()
    draw_form(frame)
    return frame


def take_in() -> Frame:
    """Take in the question and plan it. A page that uses this draws the form itself, after what is waited for."""
    words = current_words()
    document = begin_run()
    found = answer(document)
    if found.plan is not None:
        st.session_state[_GOOD], st.session_state[_GOOD_DOCUMENT] = found.plan, document
    good: Plan | None = st.session_state.get(_GOOD)
    desk = Desk(document=document, answer=found, good=good, words=words)
    remember(document)
    return Frame(
        desk=desk,
        words=words,
        plan=good,
        document=st.session_state.get(_GOOD_DOCUMENT, document),
        stale=found.plan is None,
    )


def draw_form(frame: Frame) -> None:
    """Draw the form in the sidebar, each message beside its field."""
    with st.sidebar:
        draw_undo(frame.words)
    draw_inputs(frame.desk)
    with st.sidebar:
        draw_unit(frame.words)
        draw_language(frame.words)


def plot(figure: Any, key: str, alternative: str) -> None:
    """Draw a figure as it is; `alternative` says it in words."""
    st.plotly_chart(figure, key=key, alt=alternative, theme=None, config=CONFIG)
