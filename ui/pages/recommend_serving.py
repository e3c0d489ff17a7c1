"""The Recommend page for a job that serves: which machine holds the load, at what price and pace."""

from datetime import date
from typing import Any, Final

import streamlit as st

from planner.plan_types import Plan
from planner.search.serving import Served, ServingResult
from ui import parts
from ui.numbers import whole
from ui.pages.frame import Frame
from ui.pages.recommend_ask import draw_serving_ask
from ui.pages.recommend_rows import draw_head, draw_row, offers
from ui.recommend import serving
from ui.words import Safe, Words, escaped

MOST_ROWS: Final = 6
MOST_SHORT: Final = 7
ROW_HEIGHT: Final = 32
MOST_ROWS_SEEN: Final = 14
FORMATS: Final = {
    "usd_per_hour": "$%.2f", "usd_per_million": "$%.3f", "tokens_per_s": "%.0f", "tpot": "%.1f", "ttft": "%.2f",
    "concurrency": "%.1f", "cards": "%d", "peak": "%.2f", "usable": "%.2f",
}  # fmt: skip


def draw_serving(frame: Frame, plan: Plan, today: date) -> None:
    """Draw the page."""
    words = frame.words
    with st.container(key="stale" if frame.stale else "current"):
        top = st.container(key="verdict_place", gap=None)
        asked = draw_serving_ask(frame.document, words)
        with st.spinner(words("recommend.searching")):
            result = serving.serving_reply(frame.document, asked, offers(), today)
        with top:
            reason = Safe(f"{serving.tag(result, words)}&ensp;{serving.why(result, asked, words)}")
            draw_head(frame, plan, serving.headline(result, words), reason)
            st.html(parts.strip(serving.strip(result, words)))
        with st.container(key="split"):
            with st.container(key="bestplans", gap="xsmall"):
                _best(result, words)
            with st.container(key="rejected", gap="xsmall"):
                _rejected(result, words)
        _tree(result, words)
        _list(result, words)
        left_out, kinds = words.html("recommend.serving.foot"), words.html("cost.foot.kinds")
        st.html(f'<div class="foot">{words.sentences([left_out, kinds])}</div>')


def _best(result: ServingResult, words: Words) -> None:
    st.html(parts.section(words("recommend.serving.best"), words("recommend.best.note")))
    named = (
        ("cheapest", result.cheapest),
        ("cheapest_tokens", result.cheapest_tokens),
        ("fastest", result.fastest),
    )
    rows: dict[int, tuple[list[str], Served]] = {}
    for name, found in named:
        if found is not None:
            rows.setdefault(id(found), ([], found))[0].append(words(f"recommend.serving.named.{name}"))
    for found in result.found:
        rows.setdefault(id(found), ([], found))
    for i, (names, found) in enumerate(list(rows.values())[:MOST_ROWS]):
        _row(f"{i}", names, found, words, primary=i == 0)
    if not rows:
        st.html(f'<div class="empty">{words.html("recommend.best.none")}</div>')


def _row(key: str, names: list[str], found: Served, words: Words, *, primary: bool) -> None:
    hour, each = serving.figures(found, words)
    title = words.html("recommend.best.row", cards=serving.cards(found), rent=serving.rent_text(found, words))
    named = words.listed([*names, *filter(None, [found.machine.provider])])
    body = (
        f'<div class="fix"><span>{title}</span><span class="n">{escaped(hour)}</span>'
        f'<span class="s">{escaped(named)}</span><span class="s r">{escaped(each)}</span>'
        f'<span class="s">{escaped(serving.told(found, words))}</span></div>'
    )
    draw_row(key, body, serving.cards(found), found.choice, words, primary=primary)


def _rejected(result: ServingResult, words: Words) -> None:
    title = words("recommend.short.title")
    st.html(parts.section(title, words("recommend.serving.short_note")))
    rows = serving.short_rows(result.rejected)
    if rows:
        head = [words("recommend.short.cards"), words("recommend.short.by")]
        st.html(parts.table(head, rows[:MOST_SHORT], name=title))
        if len(rows) > MOST_SHORT:
            more = words.html("recommend.short.more", n=whole(len(rows) - MOST_SHORT))
            st.html(f'<div class="p m">{more}</div>')
    else:
        st.html(f'<div class="p m">{words.html("recommend.short.none")}</div>')
    lines = serving.reason_lines(result.rejected, words)
    if lines:
        st.html(f'<div class="p m">{parts.bullets(lines)}</div>')


def _tree(result: ServingResult, words: Words) -> None:
    st.html(parts.section(words("recommend.tree.title"), words("recommend.serving.tree.note")))
    for step, found in (("latency", result.latency), ("throughput", result.throughput)):
        body = f'<div class="p">{serving.tree_line(found, step, words)}</div>'
        if found is None:
            st.html(body)
        else:
            draw_row(f"tree_{step}", body, serving.cards(found), found.choice, words, primary=False)


def _list(result: ServingResult, words: Words) -> None:
    if not result.found:
        return
    title = words.count("recommend.serving.list", len(result.found))
    st.html(parts.section(title, words("recommend.serving.list_note")))
    st.dataframe(
        serving.columns(result.found, words),
        hide_index=True,
        row_height=ROW_HEIGHT,
        height=ROW_HEIGHT * (min(len(result.found), MOST_ROWS_SEEN) + 1) + 3,
        key="rec_servers",
        alt=words("recommend.list.alt", n=len(result.found)),
        column_config={name: _column(name, words) for name in serving.COLUMNS},
    )


def _column(name: str, words: Words) -> Any:
    own = f"recommend.serving.column.{name}"
    label = words(own) if words.has(own) else words(f"recommend.column.{name}")
    if name in FORMATS:
        return st.column_config.NumberColumn(label, format=FORMATS[name], width="small")
    return st.column_config.TextColumn(label)
