"""The Buy page: the open job on up to four machines, bought or rented."""

from datetime import UTC, datetime
from typing import Final

import streamlit as st

from planner.plan_types import Plan
from ui import parts
from ui.answers import tables
from ui.buy import wording
from ui.buy.classes import draw_classes
from ui.buy.columns import Column, columns
from ui.buy.editor import draw_builds, draw_terms
from ui.buy.listing import build_csv
from ui.buy.money import Terms, months_by_use, terms_in_dollars, wrong_terms
from ui.buy.state import builds, terms
from ui.charts import buy_lines, buy_use
from ui.charts.buy_lines import Line
from ui.charts.buy_use import Curve
from ui.cost.currency import exchange, said
from ui.cost.quotes import quotes
from ui.cost.refreshed import refreshed_quotes
from ui.pages.frame import Frame, begin, plot
from ui.pages.head import draw_unanswered, draw_verdict
from ui.words import Words

MORE_MONTHS: Final = 12
LEAST_MONTHS: Final = 24


def draw() -> None:
    """Draw the page."""
    frame = begin()
    words = frame.words
    if frame.plan is None:
        draw_unanswered(frame)
        return
    today, money = datetime.now(UTC).date(), exchange()
    given = terms_in_dollars(terms(), money)
    prices = (*refreshed_quotes(), *quotes(tables().offers))
    found = columns(builds(), frame.document, given, prices, today, money)
    with st.container(key="stale" if frame.stale else "current"):
        _verdict(frame, frame.plan, found, given, money.code)
        _table(found, words)
        st.html(parts.section(words("buy.builds.title"), words("buy.builds.note")))
        draw_builds(frame.document, found, words)
        with st.container(key="split"):
            with st.container(key="buychart", gap="xsmall"):
                _chart(found, given, words, money.code)
            with st.container(key="buyterms", gap="xsmall"):
                st.html(parts.section(words("buy.terms.title"), words("buy.terms.note")))
                draw_terms(words)
        with st.container(key="buyuse", gap="xsmall"):
            _use(found, given, words)
        lines = wording.trouble(found, words)
        if lines:
            st.html(parts.section(words("buy.trouble.title")))
            st.html(f'<div class="p m">{parts.bullets(lines)}</div>')
        with st.container(key="buyclasses", gap="xsmall"):
            draw_classes(words)
        foot = words.sentences(text for text in (words("buy.foot"), said(money, words)) if text)
        st.html(f'<div class="foot">{foot}</div>')


def _verdict(frame: Frame, plan: Plan, found: tuple[Column, ...], given: Terms, code: str) -> None:
    words, lack = frame.words, wording.lack_of(found, given)
    use = (given.use_percent or 0.0) / 100
    why = wording.why(found, use, words, lack)
    draw_verdict(frame, plan, wording.headline(found, words, lack, code), why)


def _table(found: tuple[Column, ...], words: Words) -> None:
    title = words("buy.table.title")
    with st.container(key="buytable", gap="xsmall"):
        st.html(parts.section(title, words("buy.table.note")))
        if not found:
            st.html(f'<div class="empty">{words.html("buy.table.none")}</div>')
            return
        head = wording.table_head(found, words)
        st.html(
            parts.table(head, wording.table_rows(found, words), name=title, wide=tuple(range(1, len(head))))
        )
        st.download_button(
            words("buy.table.csv"),
            data=lambda: build_csv(found),
            file_name="headroom-builds.csv",
            mime="text/csv",
            key="csv",
            type="tertiary",
            on_click="ignore",
        )


def _chart(found: tuple[Column, ...], given: Terms, words: Words, code: str) -> None:
    st.html(parts.section(words("buy.chart.title"), words("buy.chart.note")))
    drawn = [one for one in found if one.costs is not None and one.costs.rented]
    if not drawn or wrong_terms(given):
        text = words.html(f"buy.chart.no_{wording.lack_of(found, given)}", code=code)
        st.html(f'<div class="empty">{text}</div>')
        return
    best = wording.best_of(found)
    lines = tuple(_line(one, best=one is best) for one in drawn)
    months = max(LEAST_MONTHS, (given.life_months or 0) + MORE_MONTHS)
    plot(buy_lines.buy_lines(lines, months, words), "buy_lines", buy_lines.alternative(lines, words))


def _use(found: tuple[Column, ...], given: Terms, words: Words) -> None:
    """The pay-back of each build by use: what articles leave out of theirs."""
    drawn = [(one, one.costs) for one in found if one.costs is not None and one.costs.rented]
    if not drawn:
        return
    best = wording.best_of(found)
    curves = tuple(
        Curve(letter=one.letter, name=wording.name_of(one), months=months_by_use(costs), best=one is best)
        for one, costs in drawn
    )
    st.html(parts.section(words("buy.use_chart.title"), words("buy.use_chart.note")))
    figure = buy_use.buy_use(curves, (given.use_percent or 0.0) / 100, words)
    plot(figure, "buy_use", buy_use.alternative(curves, words))


def _line(column: Column, *, best: bool) -> Line:
    if column.costs is None:
        raise ValueError("a line is drawn of a build whose costs are known")
    found = column.costs.found
    return Line(
        letter=column.letter,
        name=wording.name_of(column),
        more_usd=tuple(
            owned - rented for owned, rented in zip(found.owned_usd, found.rented_usd, strict=True)
        ),
        crossing=found.break_even_month,
        best=best,
    )
