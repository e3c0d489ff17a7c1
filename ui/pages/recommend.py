"""The Recommend page: the best plans for the open job over every machine, and why the others are none."""

from datetime import UTC, date, datetime
from typing import Any, Final

import streamlit as st

from planner.plan_types import Plan
from planner.search.types import Found, SearchResult
from ui import parts
from ui.charts import cost_time
from ui.cost.money import usd
from ui.cost.wording import duration
from ui.numbers import DASH
from ui.pages.frame import Frame, begin, plot
from ui.pages.head import draw_unanswered
from ui.pages.recommend_ask import draw_ask
from ui.pages.recommend_rows import (
    MOST_SHORT,
    draw_best,
    draw_list,
    draw_row,
    draw_short,
    draw_top,
    named_first,
    offers,
    plan_body,
    section_of,
)
from ui.pages.recommend_serving import draw_serving
from ui.recommend import listing, wording
from ui.recommend.ask import Ask, Reply, reply
from ui.widths import MOST_PX, column_width
from ui.words import Safe, Words

PLAN_PX: Final = 480
WIDTHS: Final[dict[str, int]] = {
    "usd": 76, "usd_from": 76, "usd_to": 76, "days": 66, "days_from": 74, "days_to": 74, "cards": 56,
    "tokens_per_s": 84, "peak": 74, "usable": 74, "usd_per_hour": 76, "date": 84,
}  # fmt: skip
FORMATS: Final = {
    "usd": "$%.0f", "usd_from": "$%.0f", "usd_to": "$%.0f", "days": "%.2f", "days_from": "%.2f",
    "days_to": "%.2f", "cards": "%d", "tokens_per_s": "%.0f", "peak": "%.2f", "usable": "%.2f",
    "usd_per_hour": "$%.2f",
}  # fmt: skip


def draw() -> None:
    """Draw the page."""
    frame = begin()
    if frame.plan is None:
        draw_unanswered(frame)
        return
    if not frame.plan.scenario.is_training:
        draw_serving(frame, frame.plan, datetime.now(UTC).date())
        return
    _answered(frame, frame.plan, datetime.now(UTC).date())


def _answered(frame: Frame, plan: Plan, today: date) -> None:
    words = frame.words
    top = st.container(key="verdict_place", gap=None)
    ask, earlier = draw_ask(frame.document, plan, words)
    with st.spinner(words("recommend.searching")):
        found = reply(frame.document, ask, offers(), today)
    result, stale = found.result, frame.stale or earlier
    reason = Safe(f"{wording.tag(result, words)}&ensp;{wording.why(found, ask, words)}")
    title = wording.headline(result, words), reason
    draw_top(top, frame, plan, title, wording.strip(found, words), stale=stale)
    with section_of(stale=stale):
        _body(found, ask, words)


def _body(found: Reply, ask: Ask, words: Words) -> None:
    result = found.result
    with st.container(key="split"):
        with st.container(key="half_left", gap="small"):
            with st.container(key="pareto", gap="xsmall"):
                _chart(result, words)
            with st.container(key="rejected", gap="xsmall"):
                _rejected(found, words)
        with st.container(key="half_right", gap="small"):
            with st.container(key="bestplans", gap="xsmall"):
                _plans(result, words)
            with st.container(key="others", gap="xsmall"):
                _others(result, words)
    _tree(result, words)
    _list(result, words)
    _unknown(result, words)
    st.html(f'<div class="foot">{wording.foot(found, ask, words)}</div>')


def _chart(result: SearchResult, words: Words) -> None:
    priced = any(found.usd is not None for found in result.found)
    title = words("recommend.chart.title" if priced else "recommend.chart.title_cards")
    st.html(parts.section(title, words("recommend.chart.note")))
    if not result.found:
        st.html(f'<div class="empty">{words.html("recommend.chart.nothing")}</div>')
        return
    on_line = {id(found) for found in result.frontier}
    others = [found for found in result.found if id(found) not in on_line]
    figure = cost_time.cost_time(others, result.frontier, words)
    plot(figure, "cost_time", cost_time.alternative(result.found, result.frontier, words))


def _plans(result: SearchResult, words: Words) -> None:
    """The plans worth opening: the named ones first, then the rest of the line."""
    named = [
        (words(f"recommend.best.{name}"), found)
        for name, found in (
            ("cheapest", result.cheapest),
            ("fastest", result.fastest),
            ("fewest", result.fewest),
        )
    ]
    rows = named_first(named, (*result.frontier, *result.unknown))
    draw_best(words("recommend.best.title"), rows, _plan_row, words)


def _plan_row(key: str, names: list[str], found: Found, words: Words, *, primary: bool) -> None:
    time = DASH if found.days is None else duration(found.days, words)
    price = "" if found.usd is None else usd(found.usd)
    title = words.html("recommend.best.row", cards=wording.cards(found), rent=wording.rent_text(found, words))
    told = words.listed([*names, *filter(None, [found.machine.provider])])
    settings = wording.settings_text(found.choice, words)
    body = plan_body(title, price or time, told, time if price else "", settings)
    draw_row(key, body, wording.cards(found), found.choice, words, primary=primary)


def _others(result: SearchResult, words: Words) -> None:
    title = words("recommend.other.title")
    st.html(parts.section(title, words("recommend.other.note")))
    if not result.others:
        st.html(f'<div class="p m">{words.html("recommend.other.none")}</div>')
        return
    head = [words(f"recommend.other.{name}") for name in ("dimension", "value", "result")]
    st.html(parts.table(head, wording.other_rows(result.others, words), name=title, left=(1,)))


def _rejected(found: Reply, words: Words) -> None:
    head = [words(f"recommend.short.{name}") for name in ("cards", "by", "plan")]
    rows, lines = wording.short_rows(found.result.rejected, words), wording.limit_lines(found, words)
    draw_short(words("recommend.short.note"), head, rows, lines, words, wide=(2,))


def _tree(result: SearchResult, words: Words) -> None:
    tree = result.tree
    if tree is None:
        return
    st.html(parts.section(words("recommend.tree.title"), words("recommend.tree.note")))
    body = f'<div class="p">{wording.tree_lines(result, words)}</div>'
    if tree.found is None:
        st.html(body)
        return
    draw_row("tree", body, words("recommend.tree.plan"), tree.found.choice, words, primary=False)


def _list(result: SearchResult, words: Words) -> None:
    if not result.found:
        return
    found = result.found
    st.html(parts.section(words.count("recommend.list.title", len(found)), words("recommend.list.note")))
    columns = listing.columns(found, words)
    event = draw_list(
        columns,
        len(found),
        "rec_plans",
        {name: _column(name, cells, words) for name, cells in columns.items()},
        words,
        on_select="rerun",
        selection_mode="single-row",
    )
    chosen = event.selection.rows
    if chosen and chosen[0] < len(found):
        picked = found[chosen[0]]
        settings = wording.settings_text(picked.choice, words)
        told = words.html("recommend.list.chosen", cards=wording.cards(picked), plan=settings)
        body = f'<div class="p">{told}</div>'
        draw_row("chosen", body, wording.cards(picked), picked.choice, words, primary=False)
    st.download_button(
        words("recommend.list.csv"),
        data=lambda: listing.plan_csv(found),
        file_name="headroom-plans.csv",
        mime="text/csv",
        key="csv",
        type="tertiary",
        on_click="ignore",
    )


def _column(name: str, cells: list[Any], words: Words) -> Any:
    label = words(f"recommend.column.{name}")
    if name in FORMATS:
        return st.column_config.NumberColumn(label, format=FORMATS[name], width=WIDTHS[name])
    width = WIDTHS.get(name) or column_width(label, cells, PLAN_PX if name == "plan" else MOST_PX)
    return st.column_config.TextColumn(label, width=width)


def _unknown(result: SearchResult, words: Words) -> None:
    """Plans that fit on cards whose speed is not known: by number of cards, as nothing else can rank them."""
    if not result.unknown:
        return
    title = words.count("recommend.unknown.title", len(result.unknown))
    st.html(parts.section(title, words("recommend.unknown.note")))
    head = [words(f"recommend.unknown.{name}") for name in ("cards", "where", "plan", "lacks")]
    rows = [
        [
            wording.cards(found),
            wording.rent_text(found, words),
            wording.settings_text(found.choice, words),
            wording.unknown_text(found.missing, words),
        ]
        for found in result.unknown[:MOST_SHORT]
    ]
    st.html(parts.table(head, rows, name=title, left=(1,), wide=(2, 3)))
