"""What both halves of the Recommend page draw: the head, a plan with the button that opens it, the prices."""

import streamlit as st

from planner.hardware import Offer
from planner.plan_types import Plan
from planner.scenario import to_document
from planner.search.types import Choice
from ui import verdict
from ui.answers import tables
from ui.cost.refreshed import refreshed
from ui.pages.frame import Frame
from ui.pages.problems import draw_problems
from ui.share import draw_share
from ui.state import load
from ui.words import Safe, Words, escaped


def offers() -> tuple[Offer, ...]:
    """The table's prices, and those fetched on the Cost page."""
    fetched = refreshed()
    return (*tables().offers, *(() if fetched is None else fetched.offers))


def draw_head(frame: Frame, plan: Plan, sentence: str, reason: Safe) -> None:
    """The scenario, the verdict and its reason."""
    words = frame.words
    with st.container(key="verdict", gap=None):
        with st.container(key="top", horizontal=True, wrap=False, vertical_alignment="center", gap="small"):
            st.html(f'<div class="scn">{verdict.scenario_sentence(plan, words)}</div>', width="stretch")
            draw_share(frame)
        st.html(f'<h1 class="v">{escaped(sentence)}</h1><p class="why">{reason}</p>')
    draw_problems(frame)


def draw_row(key: str, body: str, name: str, choice: Choice, words: Words, *, primary: bool) -> None:
    """A line of text with the button that opens its plan on the Plan page."""
    with st.container(
        key=f"fixrow_rec_{key}", horizontal=True, wrap=False, vertical_alignment="center", gap="small"
    ):
        st.html(body, width="stretch")
        if st.button(
            words("recommend.best.open", what=name),
            key=f"rec_open_{key}",
            type="primary" if primary else "secondary",
        ):
            open_plan(choice)


def open_plan(choice: Choice) -> None:
    """Make a plan the open question and go to its page."""
    from ui.pages import plan  # noqa: PLC0415

    load(to_document(choice.scenario))
    st.switch_page(st.Page(plan.draw, url_path="plan", default=True))
