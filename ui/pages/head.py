"""What pages begin with: the scenario, the verdict and why; or that there is no answer yet."""

import streamlit as st

from planner.plan_types import Plan
from ui import parts, verdict
from ui.pages.frame import Frame
from ui.pages.problems import draw_problems
from ui.share import draw_share


def draw_unanswered(frame: Frame) -> None:
    """A page whose question has never been answered: that, and what is to be mended."""
    st.html(parts.headline(frame.words.html("stale.first")))
    draw_problems(frame)


def draw_verdict(frame: Frame, plan: Plan, sentence: str, why: str) -> None:
    """The scenario with the menu to share it, the page's verdict, its reason, and what is wrong with the question.

    Args:
        frame: The page.
        plan: The plan that the page is about.
        sentence: The verdict.
        why: HTML of its reason.
    """
    with st.container(key="verdict", gap=None):
        with st.container(key="top", horizontal=True, wrap=False, vertical_alignment="center", gap="small"):
            st.html(f'<div class="scn">{verdict.scenario_sentence(plan, frame.words)}</div>', width="stretch")
            draw_share(frame)
        st.html(f'{parts.headline(sentence)}<p class="why">{why}</p>')
    draw_problems(frame)
