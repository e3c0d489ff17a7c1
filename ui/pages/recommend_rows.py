"""What both halves of the Recommend page draw: head, plans with the button that opens them, what is short, lists."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from planner.plan_types import Plan
from planner.prices import Offer
from planner.scenario import to_document
from planner.search.types import Choice
from ui import parts
from ui.answers import tables
from ui.cost.refreshed import refreshed
from ui.numbers import DASH, whole
from ui.pages.frame import Frame
from ui.pages.head import draw_verdict
from ui.state import load
from ui.words import Safe, Words, escaped

Plan_ = TypeVar("Plan_")
MOST_ROWS: Final = 6
MOST_SHORT: Final = 7
ROW_HEIGHT: Final = 32
MOST_ROWS_SEEN: Final = 14


def offers() -> tuple[Offer, ...]:
    """The table's prices, and those fetched on the Cost page."""
    fetched = refreshed()
    return (*tables().offers, *(() if fetched is None else fetched.offers))


def section_of(*, stale: bool) -> DeltaGenerator:
    """Where the answer is drawn: grey where it answers an earlier question."""
    return st.container(key="stale" if stale else "current")


def draw_top(
    place: DeltaGenerator,
    frame: Frame,
    plan: Plan,
    title: tuple[str, Safe],
    strip: Sequence[Any],
    *,
    stale: bool,
) -> None:
    """The scenario, the verdict with its reason, and the strip of figures, above the constraints.

    Args:
        place: Where they go.
        frame: The page.
        plan: The open question's own plan.
        title: The verdict, and why.
        strip: The figures.
        stale: Whether they answer an earlier question.
    """
    with place, st.container(key="stale_head" if stale else "head", gap=None):
        draw_verdict(frame, plan, *title)
        st.html(parts.strip(strip))


def named_first(
    named: Iterable[tuple[str, Plan_ | None]], rest: Iterable[Plan_]
) -> list[tuple[list[str], Plan_]]:
    """Plans with all the names that each has, in order; then those without one."""
    rows: dict[int, tuple[list[str], Plan_]] = {}
    for name, found in named:
        if found is not None:
            rows.setdefault(id(found), ([], found))[0].append(name)
    for found in rest:
        rows.setdefault(id(found), ([], found))
    return list(rows.values())


def draw_best(
    title: str, rows: Sequence[tuple[list[str], Plan_]], row: Callable[..., None], words: Words
) -> None:
    """The plans worth opening; `row` draws one from its key, names and plan, the first as `primary`."""
    st.html(parts.section(title, words("recommend.best.note")))
    for i, (names, found) in enumerate(rows[:MOST_ROWS]):
        row(f"{i}", names, found, words, primary=i == 0)
    if not rows:
        st.html(f'<div class="empty">{words.html("recommend.best.none")}</div>')


def plan_body(title: Safe, figure: str, told: str, aside: str, more: str) -> str:
    """A plan in three lines: its machines and main figure, its names and other figure, its settings."""
    return (
        f'<div class="fix"><span>{title}</span><span class="n">{escaped(figure)}</span>'
        f'<span class="s">{escaped(told)}</span><span class="s r">{escaped(aside)}</span>'
        f'<span class="s">{escaped(more)}</span></div>'
    )


def draw_short(
    note: str, head: Sequence[str], rows: Sequence[Any], lines: Sequence[str], words: Words, **look: Any
) -> None:
    """Machines that are short of memory, and the other reasons against any."""
    title = words("recommend.short.title")
    st.html(parts.section(title, note))
    if rows:
        st.html(parts.table(head, rows[:MOST_SHORT], name=title, **look))
        if len(rows) > MOST_SHORT:
            more = words.html("recommend.short.more", n=whole(len(rows) - MOST_SHORT))
            st.html(f'<div class="p m">{more}</div>')
    else:
        st.html(f'<div class="p m">{words.html("recommend.short.none")}</div>')
    if lines:
        st.html(f'<div class="p m">{parts.bullets(lines)}</div>')


def draw_list(
    columns: Mapping[str, Any], rows: int, key: str, config: Mapping[str, Any], words: Words, **more: Any
) -> Any:
    """Every plan in a table that sorts."""
    return st.dataframe(
        columns,
        hide_index=True,
        row_height=ROW_HEIGHT,
        height=ROW_HEIGHT * (min(rows, MOST_ROWS_SEEN) + 1) + 3,
        key=key,
        alt=words("recommend.list.alt", n=rows),
        placeholder=DASH,
        column_config=config,
        **more,
    )


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
