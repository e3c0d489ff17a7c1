"""The Claims page: what people say about GPU memory, beside what the planner finds."""

from typing import Final

import streamlit as st

from planner.claims import CLAIMS, Outcome
from planner.plan_types import Plan
from ui import parts, verdict
from ui.claims.figures import value_text
from ui.claims.listing import TOPICS, claim_html, counts, fetched_prices, furthest, plan_rules, rule_table
from ui.numbers import whole
from ui.pages.frame import Frame, begin
from ui.pages.problems import draw_problems
from ui.share import draw_share
from ui.words import Safe, Words

TABS: Final = ("own", *TOPICS)


def draw() -> None:
    """Draw the page; of its tabs only the open one is worked out."""
    frame = begin()
    words = frame.words
    with st.container(key="stale" if frame.stale else "current"):
        _verdict(frame)
        names = [words(f"claims.tab.{tab}") for tab in TABS]
        for tab, box in zip(TABS, st.tabs(names, key="claims_tabs", on_change="rerun"), strict=True):
            if box.open:
                with box:
                    _own(frame.plan, words) if tab == "own" else _topic(tab, words)
        st.html(f'<div class="foot">{words.html("claims.foot")}</div>')


def _verdict(frame: Frame) -> None:
    words, found = frame.words, counts(fetched_prices())
    with st.container(key="verdict", gap=None):
        with st.container(key="top", horizontal=True, wrap=False, vertical_alignment="center", gap="small"):
            sentence = verdict.scenario_sentence(frame.plan, words) if frame.plan is not None else ""
            st.html(f'<div class="scn">{sentence}</div>', width="stretch")
            draw_share(frame)
        headline = words.html(
            "claims.headline",
            n=whole(len(CLAIMS)), wrong=whole(found[Outcome.WRONG]), depends=whole(found[Outcome.DEPENDS]),
        )  # fmt: skip
        st.html(f'{parts.headline(headline)}<p class="why">{_why(frame.plan, words)}</p>')
    draw_problems(frame)


def _why(plan: Plan | None, words: Words) -> Safe:
    if plan is None:
        return words.html("claims.why_noplan")
    worst = furthest(plan_rules(plan))
    if worst is None or worst.figure.said is None:
        return words.html("claims.why_none")
    return words.html(
        "claims.why_off",
        rule=words(f"claims.rule.{worst.figure.name}"),
        said=value_text(worst.figure.said, worst.figure, words),
        found=value_text(worst.figure.found, worst.figure, words),
    )


def _own(plan: Plan | None, words: Words) -> None:
    found = plan_rules(plan) if plan is not None else ()
    if not found:
        st.html(f'<div class="empty">{words.html("claims.nothing")}</div>')
        return
    with st.container(key="claims_own", gap="xsmall"):
        st.html(parts.section(words("claims.tab.own"), words("claims.note_own")))
        st.html(rule_table(found, words))


def _topic(topic: str, words: Words) -> None:
    st.html(f'<div class="p m">{words.html("claims.note_list")}</div>')
    fetched = fetched_prices()
    for name in TOPICS[topic]:
        with st.container(key=f"claim_{name}", gap="xsmall"):
            st.html(claim_html(name, words, fetched))
