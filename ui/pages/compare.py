"""The Compare page: two or three scenarios side by side, and the list of saved ones."""

import streamlit as st

from planner.plan_types import Plan
from ui import parts, verdict
from ui.changes import outcomes
from ui.charts import compare_bars
from ui.compare import wording
from ui.compare.choosing import LETTERS, Chooser, draw_chooser
from ui.compare.listing import draw_saved
from ui.compare.shelf import open_shelf
from ui.compare.sides import Answered, Side, answered, categories
from ui.pages.frame import Frame, begin, plot
from ui.pages.head import draw_unanswered
from ui.pages.problems import draw_problems
from ui.share import draw_share
from ui.words import Safe, Words


def draw() -> None:
    """Draw the page."""
    frame = begin()
    if frame.plan is None:
        draw_unanswered(frame)
        return
    shelf = open_shelf()
    chooser = Chooser(frame.document, outcomes(frame.document, frame.plan), shelf, frame.words)
    first = _open_side(frame, frame.plan)
    others = [chooser.side(letter) for letter in LETTERS]
    sides = answered((first, *(side for side in others if side is not None)))
    with st.container(key="stale" if frame.stale else "current"):
        _verdict(frame, frame.plan, sides)
        _strip(first, others, frame.words)
        draw_chooser(chooser, frame.words)
        _bars(sides, frame.words)
        if len(sides) > 1:
            _differences(sides, frame.words)
            _changed(sides, frame.words)
        st.html(f'<div class="foot">{wording.known_line(sides, frame.words)}</div>')
        draw_saved(frame.document, frame.plan, shelf, frame.words)


def _open_side(frame: Frame, plan: Plan) -> Side:
    given = frame.document.get("name")
    name = given if isinstance(given, str) and given else frame.words("compare.open_name")
    return Side(letter="A", name=name, document=frame.document, plan=plan)


def _verdict(frame: Frame, plan: Plan, sides: tuple[Answered, ...]) -> None:
    words = frame.words
    with st.container(key="verdict", gap=None):
        with st.container(key="top", horizontal=True, wrap=False, vertical_alignment="center", gap="small"):
            st.html(f'<div class="scn">{verdict.scenario_sentence(plan, words)}</div>', width="stretch")
            draw_share(frame)
        if len(sides) == 1:
            head, why = words.html("compare.head.none"), words.html("compare.why.none")
        else:
            head = wording.headline(sides, words)
            why = Safe(f"{wording.tally(sides, words)}&ensp;{wording.why(sides, words)}")
        st.html(f'{parts.headline(head)}<p class="why">{why}</p>')
    draw_problems(frame)


def _strip(first: Side, others: list[Side | None], words: Words) -> None:
    cells = [wording.cell(first, words)]
    for letter, side in zip(LETTERS, others, strict=True):
        cells.append(wording.empty_cell(letter, words) if side is None else wording.cell(side, words))
    with st.container(key="compare_strip"):
        st.html(parts.strip(cells))


def _bars(sides: tuple[Answered, ...], words: Words) -> None:
    rows = [(side.letter, side.name, side.worst) for side in sides]
    with st.container(key="bars", gap="xsmall"):
        st.html(parts.section(words("compare.bars"), words("compare.bars_note")))
        plot(compare_bars.compare_bars(rows, words), "compare_bars", compare_bars.alternative(rows, words))
        st.html(
            parts.legend(
                categories(sides),
                words,
                capacity=any(side.worst.usable_bytes is not None for side in sides),
                band=any(side.worst.band is not None for side in sides),
            )
        )


def _differences(sides: tuple[Answered, ...], words: Words) -> None:
    title = words("compare.differences")
    with st.container(key="differences", gap="xsmall"):
        st.html(parts.section(title, wording.differences_note(sides, words)))
        head = wording.difference_head(sides, words)
        last = len(head) - 1
        rows = wording.difference_rows(sides, words)
        st.html(parts.table(head, rows, name=title, wide=(last,), stacked=True))


def _changed(sides: tuple[Answered, ...], words: Words) -> None:
    title = words("compare.changed")
    rows, more = wording.changed_rows(sides, words)
    with st.container(key="changed", gap="xsmall"):
        st.html(parts.section(title, words("compare.changed_note")))
        if not rows:
            st.html(f'<div class="p m">{words.html("compare.changed_none")}</div>')
            return
        head = wording.changed_head(sides, words)
        st.html(parts.table(head, rows, name=title, left=tuple(range(1, len(head)))))
        if more:
            st.html(f'<div class="p m">{words.html("compare.changed_more", n=more)}</div>')
