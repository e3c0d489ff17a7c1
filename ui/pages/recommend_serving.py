"""The Recommend page for a job that serves: which machine holds the load, at what price and pace."""

from datetime import date
from typing import Any, Final

import streamlit as st

from planner.plan_types import Plan
from planner.search.serving import Served, ServingResult
from ui import parts
from ui.pages.frame import Frame
from ui.pages.recommend_ask import draw_serving_ask
from ui.pages.recommend_rows import (
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
from ui.recommend import serving
from ui.widths import column_width
from ui.words import Safe, Words

FORMATS: Final = {
    "usd_per_hour": "$%.2f", "usd_per_million": "$%.3f", "tokens_per_s": "%.0f", "tpot": "%.1f", "ttft": "%.2f",
    "concurrency": "%.1f", "cards": "%d", "peak": "%.2f", "usable": "%.2f",
}  # fmt: skip


def draw_serving(frame: Frame, plan: Plan, today: date) -> None:
    """Draw the page."""
    words = frame.words
    top = st.container(key="verdict_place", gap=None)
    asked, earlier = draw_serving_ask(frame.document, words)
    with st.spinner(words("recommend.searching")):
        result = serving.serving_reply(frame.document, asked, offers(), today)
    stale = frame.stale or earlier
    reason = Safe(f"{serving.tag(result, words)}&ensp;{serving.why(result, asked, words)}")
    title = serving.headline(result, words), reason
    draw_top(top, frame, plan, title, serving.strip(result, words), stale=stale)
    with section_of(stale=stale):
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
    best = (
        ("cheapest", result.cheapest),
        ("cheapest_tokens", result.cheapest_tokens),
        ("fastest", result.fastest),
    )
    named = [(words(f"recommend.serving.named.{name}"), found) for name, found in best]
    draw_best(words("recommend.serving.best"), named_first(named, result.found), _row, words)


def _row(key: str, names: list[str], found: Served, words: Words, *, primary: bool) -> None:
    hour, each = serving.figures(found, words)
    title = words.html("recommend.best.row", cards=serving.cards(found), rent=serving.rent_text(found, words))
    named = words.listed([*names, *filter(None, [found.machine.provider])])
    body = plan_body(title, hour, named, each, serving.told(found, words))
    draw_row(key, body, serving.cards(found), found.choice, words, primary=primary)


def _rejected(result: ServingResult, words: Words) -> None:
    head = [words("recommend.short.cards"), words("recommend.short.by")]
    rows, lines = serving.short_rows(result.rejected), serving.reason_lines(result.rejected, words)
    draw_short(words("recommend.serving.short_note"), head, rows, lines, words)


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
    columns = serving.columns(result.found, words)
    config = {name: _column(name, cells, words) for name, cells in columns.items()}
    draw_list(columns, len(result.found), "rec_servers", config, words)


def _column(name: str, cells: list[Any], words: Words) -> Any:
    own = f"recommend.serving.column.{name}"
    label = words(own) if words.has(own) else words(f"recommend.column.{name}")
    if name in FORMATS:
        return st.column_config.NumberColumn(label, format=FORMATS[name], width=column_width(label, ()))
    return st.column_config.TextColumn(label, width=column_width(label, cells))
