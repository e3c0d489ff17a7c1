"""Where to start from: a story, or back to the one last chosen."""

from typing import Any

import streamlit as st

from ui.bring import draw_bring
from ui.document import Document
from ui.examples import STORIES, story_document, story_of
from ui.inputs.desk import Desk
from ui.state import bind, load

_CHOSEN = "story_chosen"


def draw(desk: Desk) -> None:
    """The menu of stories; once the question has changed, a way back."""
    words = desk.words
    current = story_of(desk.document)
    if current is not None:
        st.session_state[_CHOSEN] = current
    st.selectbox(
        words("start.label"),
        STORIES,
        index=None if current is None else 0,
        format_func=lambda story: words(f"story.{story}.name"),
        placeholder=words("start.own"),
        key=bind("story", current, _open, STORIES),
    )
    if current is None:
        chosen = st.session_state.get(_CHOSEN, STORIES[0])
        with st.container(key="quiet_reset"):
            st.button(
                words("start.reset", story=words(f"story.{chosen}.name")),
                type="tertiary",
                key="reset",
                on_click=lambda: load(story_document(chosen)),
            )
    draw_bring(words)


def _open(document: Document, story: Any) -> Document:
    return document if story is None else story_document(story)
