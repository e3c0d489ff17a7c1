"""The section on layouts over unequal cards: closed until somebody opens it, or open beside a refused layout."""

import json
from functools import lru_cache
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from planner.issues import Severity
from planner.mixed.layouts import Layouts, Row, is_mixed, layouts
from planner.mixed.step_time import stages_of
from planner.validation import parse_scenario
from ui import answers, parts
from ui.answers import Answer, answer
from ui.document import Document, canonical
from ui.examples import refused_document, story_of
from ui.folded import folded
from ui.language import current_words
from ui.mixed import wording
from ui.state import load, was_replaced
from ui.words import Safe, Words

REMEMBERED: Final = 32


def is_shown(document: Document) -> bool:
    """Whether a question trains on unequal cards."""
    scenario = answer(document).scenario
    return scenario is not None and is_mixed(scenario)


@st.fragment
def draw_mixed(document: Document) -> None:
    """The section; nothing for equal cards.

    Args:
        document: The question as it stands, whether it can be planned or not.
    """
    if was_replaced():
        st.rerun()
    if not is_shown(document):
        return
    words = current_words()
    if _refused_layout(answer(document)):
        box: DeltaGenerator | None = st.expander(words("mixed.title"), key="mixed_refused", expanded=True)
    else:
        box = folded("mixed", words)
    if box is None:
        return
    with box:
        with st.spinner(words("mixed.working")):
            found = _layouts(canonical(document))
        st.html(f'<div class="p m">{words.html("mixed.note")}</div>')
        for row in found.rows:
            _row(row, words, is_best=row is found.best)
        _published(document, words)
        if found.refusal is not None:
            st.html(parts.note("tight", words.html(f"mixed.refusal.{found.refusal}")))
        if not found.speed_known:
            st.html(parts.note("", words.html("mixed.speed_unknown")))
        _stages(found.rows[-1], words)


def _refused_layout(found: Answer) -> bool:
    return any(issue.field.startswith("parallel") for issue in found.errors)


@lru_cache(maxsize=REMEMBERED)
def _layouts(text: str) -> Layouts:
    scenario, _ = parse_scenario(json.loads(text))
    if scenario is None:
        return Layouts(rows=(), refusal="model_not_known")
    return layouts(scenario, answers.tables())


def _row(row: Row, words: Words, *, is_best: bool) -> None:
    body = wording.row_html(row, answers.tables(), words)
    with st.container(
        key=f"fixrow_mixed_{row.name}", horizontal=True, wrap=False, vertical_alignment="center", gap="small"
    ):
        st.html(body, width="stretch")
        if row.name != "asked" and row.plan is not None:
            st.button(
                words("changes.apply", what=words(f"mixed.name.{row.name}")),
                key=f"apply_mixed_{row.name}",
                type="primary" if is_best else "secondary",
                on_click=load,
                args=(row.document,),
            )


def _published(document: Document, words: Words) -> None:
    """The layout that the open story was published with, and why it is refused."""
    story = story_of(document)
    refused = None if story is None else refused_document(story)
    if refused is None:
        return
    errors = [issue for issue in answer(refused).issues if issue.severity is Severity.ERROR]
    body = wording.refused_html(words.html("mixed.name.published"), refused, errors, words)
    with st.container(
        key="fixrow_mixed_published", horizontal=True, wrap=False, vertical_alignment="center", gap="small"
    ):
        st.html(body, width="stretch")
        st.button(
            words("changes.apply", what=words("mixed.name.published")),
            key="apply_mixed_published",
            on_click=load,
            args=(refused,),
        )


def _stages(row: Row, words: Words) -> None:
    """The stages of a layout, which card limits it, which stage sets the pace, and why the order matters."""
    if row.plan is None:
        return
    stages = stages_of(row.plan, answers.tables())
    title = words("mixed.stages", name=words(f"mixed.name.{row.name}"))
    st.html(parts.section(title, words("mixed.stages_note")))
    st.html(parts.table(wording.stage_head(words), wording.stage_rows(stages, words), name=title, left=(1,)))
    lines = wording.remarks(row, stages, words)
    st.html(Safe(f'<div class="p">{parts.bullets(lines)}</div>'))
