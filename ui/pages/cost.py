"""The Cost page: what an hour of the open job costs on cards it fits on."""

from datetime import UTC, date, datetime
from typing import Any, Final

import streamlit as st

from hardware_db import purchase_prices
from planner.cost import tokens_of
from planner.plan_types import Plan
from planner.prices import Freshness, PurchasePrice, freshness
from ui import parts
from ui.answers import tables
from ui.catalog import gpu as card
from ui.charts import cost_frontier
from ui.cost import choice, listing, wording
from ui.cost.choice import ANY, Filter, Show
from ui.cost.layout import layout_of
from ui.cost.money import day, usd
from ui.cost.quotes import Kind
from ui.cost.refresh_panel import draw_refresh
from ui.cost.refreshed import refreshed_quotes
from ui.cost.replans import replans
from ui.cost.rows import Row, rows_of, table_rows
from ui.document import Document
from ui.names import card_name
from ui.numbers import DASH, gib1, whole
from ui.pages.cost_own import draw_own_prices, own_quotes
from ui.pages.frame import Frame, begin, plot
from ui.pages.head import draw_unanswered, draw_verdict
from ui.widths import column_width
from ui.words import Safe, Words, escaped

MOST_SHORT: Final = 7
ROW_HEIGHT: Final = 32
MOST_ROWS_SEEN: Final = 14
ANY_AGE: Final = "any_age"
AGES: Final = (ANY_AGE, Freshness.RECENT.value, Freshness.YEAR.value)
WIDTHS: Final[dict[str, int]] = {
    "usd_per_hour": 76,
    "usd_per_million": 84,
    "cards": 56,
    "gib_each": 70,
    "gib_total": 72,
    "headroom": 78,
    "verdict": 66,
    "usd_per_gpu_hour": 74,
    "date": 84,
}
FORMATS: Final = {
    "usd_per_hour": "$%.2f",
    "usd_per_million": "$%.3f",
    "usd_per_gpu_hour": "$%.2f",
    "headroom": "%+.2f",
    "cards": "%d",
    "gib_each": "%d",
    "gib_total": "%d",
}


def draw() -> None:
    """Draw the page."""
    frame = begin()
    words = frame.words
    if frame.plan is None:
        draw_unanswered(frame)
        return
    plan = frame.plan
    today = datetime.now(UTC).date()
    own = rows_of(own_quotes(frame.document), layout_of(plan), replans(frame.document))
    fetched = rows_of(refreshed_quotes(), layout_of(plan), replans(frame.document))
    rows = (*table_rows(frame.document, plan), *fetched, *own)
    kind = Kind(st.session_state.get("cost_kind") or Kind.ON_DEMAND)
    of_kind = choice.of_kind(rows, kind)
    with st.container(key="stale" if frame.stale else "current"):
        _verdict(frame, plan, of_kind, kind, today)
        st.html(parts.strip(wording.strip(of_kind, rows, kind, today, words)))
        with st.container(key="split"):
            with st.container(key="frontier", gap="xsmall"):
                _chart(of_kind, today, words)
            with st.container(key="short", gap="xsmall"):
                _short(of_kind, words)
        _list(of_kind, rows, kind, today, words)
        if kind is Kind.OWN:
            _own(plan, frame.document, kind, words)
        with st.container(key="rows_cost", gap=None):
            if kind is not Kind.OWN:
                _own(plan, frame.document, kind, words)
            with st.expander(words("cost.refresh.title"), key="refresh"):
                draw_refresh(words)
        with st.container(key="split2"):
            with st.container(key="buying", gap="xsmall"):
                _buy(plan, today, words)
            with st.container(gap="xsmall"):
                _left_out(of_kind, words)
        st.html(f'<div class="foot">{wording.foot(of_kind, today, words)}</div>')


def _verdict(frame: Frame, plan: Plan, rows: tuple[Row, ...], kind: Kind, today: date) -> None:
    words = frame.words
    run = wording.run(rows, tokens_of(plan.resolved.workload), today, words)
    said = words.sentences(filter(None, [wording.why(rows, kind, today, words), run]))
    why = f"{wording.tag(rows, words)}&ensp;{said}"
    draw_verdict(frame, plan, wording.headline(rows, kind, today, words), why)


def _chart(rows: tuple[Row, ...], today: date, words: Words) -> None:
    fitting = tuple(row for row in rows if row.status.value == Show.FITS.value)
    best = choice.frontier(rows, today)
    note = "cost.chart.note" if best or not fitting else "cost.chart.note_old"
    st.html(parts.section(words("cost.chart.title"), words(note)))
    if not fitting:
        st.html(f'<div class="empty">{words.html("cost.chart.nothing")}</div>')
        return
    others = tuple(row for row in fitting if row not in best)
    figure = cost_frontier.cost_frontier(others, best, words)
    plot(figure, "cost_frontier", cost_frontier.alternative(fitting, best, words))


def _short(rows: tuple[Row, ...], words: Words) -> None:
    shorts = choice.shortages(rows)
    title = words.count("cost.short.title", sum(short.offers for short in shorts))
    if shorts:
        st.html(parts.section(title, words("cost.short.note")))
        head = [words(f"cost.short.{name}") for name in ("offer", "by", "part")]
        cells = wording.short_rows(shorts[:MOST_SHORT], words)
        drawn = [
            [cards, by, Safe(f"{parts.swatch(short.largest)}{part}")]
            for short, (cards, by, part) in zip(shorts[:MOST_SHORT], cells, strict=True)
        ]
        st.html(parts.table(head, drawn, name=title, left=(2,)))
        rest = shorts[MOST_SHORT:]
        if rest:
            cards = words.count("cost.short.cards", len(rest))
            more = words.html("cost.short.more", cards=cards, gib=gib1(rest[-1].short_bytes))
            st.html(f'<div class="p m">{more}</div>')
    elif rows:
        st.html(parts.section(words("cost.short.none")))


def _left_out(rows: tuple[Row, ...], words: Words) -> None:
    lines = wording.refusal_lines(rows, words)
    if lines:
        st.html(parts.section(words("cost.short.rest")))
        st.html(f'<div class="p m">{parts.bullets(lines)}</div>')


def _list(rows: tuple[Row, ...], all_rows: tuple[Row, ...], kind: Kind, today: date, words: Words) -> None:
    narrowed = choice.filtered(rows, _filters(all_rows, words), today)
    with st.container(key="listhead", horizontal=True, vertical_alignment="bottom", gap="small"):
        head = st.container(width="stretch")
        text = st.text_input(
            words("cost.filter.search"),
            placeholder=words("cost.filter.search_example"),
            max_chars=80,
            key="cost_search",
            width=240,
            label_visibility="collapsed",
            persist_state="session",
        )
    shown = choice.by_price(choice.searched(narrowed, text or ""))
    offers = words.count("cost.offers", len(shown))
    title = words("cost.list.title", kind=words(f"cost.kind.{kind.value}.name"), offers=offers)
    head.html(parts.section(title, words("cost.list.note")))
    if not shown:
        st.html(f'<div class="empty">{words.html("cost.list.none")}</div>')
        return
    columns = listing.columns(shown, today, words)
    st.dataframe(
        columns,
        hide_index=True,
        row_height=ROW_HEIGHT,
        height=ROW_HEIGHT * (min(len(shown), MOST_ROWS_SEEN) + 1) + 3,
        key="cost_offers",
        alt=words("cost.list.alt", n=len(shown)),
        placeholder=DASH,
        column_config={name: _column(name, cells, words) for name, cells in columns.items()},
    )
    st.download_button(
        words("cost.list.csv"),
        data=lambda: listing.price_csv(shown),
        file_name="headroom-prices.csv",
        mime="text/csv",
        key="csv",
        type="tertiary",
        on_click="ignore",
    )


def _own(plan: Plan, document: Document, kind: Kind, words: Words) -> None:
    """The user's own prices: in the open where they are what is ranked, else folded away."""
    title, note = words("cost.own.title"), words("cost.own.note")
    if kind is Kind.OWN:
        st.html(parts.section(title, note))
        draw_own_prices(plan, document, words)
        return
    with st.expander(title, key="own"):
        st.html(f'<div class="p m">{escaped(note)}</div>')
        draw_own_prices(plan, document, words)


def _column(name: str, cells: list[Any], words: Words) -> Any:
    label = words(f"cost.column.{name}")
    key = f"cost.column_help.{name}"
    help_text = words(key) if words.has(key) else None
    if name in FORMATS:
        return st.column_config.NumberColumn(label, help=help_text, format=FORMATS[name], width=WIDTHS[name])
    width = WIDTHS.get(name) or column_width(label, cells)
    return st.column_config.TextColumn(label, help=help_text, width=width)


def _filters(rows: tuple[Row, ...], words: Words) -> Filter:
    """The controls above the list, remembered while other pages are open."""
    providers = sorted({row.quote.provider for row in rows if row.quote.provider}, key=str.lower)
    gpus = sorted({choice.card_of(row) for row in rows}, key=lambda name: card_name(name).lower())
    with st.container(key="filters", horizontal=True, vertical_alignment="top", gap="small"):
        st.segmented_control(
            words("cost.filter.kind"),
            [kind.value for kind in Kind],
            format_func=lambda kind: words(f"cost.kind.{kind}.name"),
            default=Kind.ON_DEMAND.value,
            required=True,
            key="cost_kind",
            persist_state="session",
        )
        show = st.selectbox(
            words("cost.filter.show"),
            [show.value for show in Show],
            format_func=lambda show: words(f"cost.filter.show_{show}"),
            key="cost_show",
            width=130,
            persist_state="session",
        )
        gpu = st.selectbox(
            words("cost.filter.gpu"),
            [ANY, *gpus],
            format_func=lambda name: card_name(name) or words("cost.filter.any_gpu"),
            key="cost_gpu",
            width=150,
            persist_state="session",
        )
        provider = st.selectbox(
            words("cost.filter.provider"),
            [ANY, *providers],
            format_func=lambda name: name or words("cost.filter.any_provider"),
            key="cost_provider",
            width=150,
            persist_state="session",
        )
        age = st.selectbox(
            words("cost.filter.age"),
            AGES,
            format_func=lambda tier: words("cost.filter.any_age" if tier == ANY_AGE else f"cost.age.{tier}"),
            key="cost_age",
            width=130,
            persist_state="session",
        )
    tier = None if age in (None, ANY_AGE) else Freshness(age)
    return Filter(show=Show(show or Show.FITS), gpu=gpu or ANY, provider=provider or ANY, age=tier)


def _buy(plan: Plan, today: date, words: Words) -> None:
    """What the cards of the open question cost to buy, as far as somebody published it."""
    known = purchase_prices()
    counts: dict[str, int] = {}
    for device in plan.devices:
        counts[device.gpu_id] = counts.get(device.gpu_id, 0) + len(device.indices)
    rows: list[list[str]] = []
    for gpu_id, devices in counts.items():
        prices = [price for price in known if price.gpu_id == gpu_id]
        rows += [_buy_row(price, devices, today, words) for price in prices] or [
            [_buy_name(gpu_id), Safe(f'<span class="m">{words.html("cost.buy.none")}</span>'), *[DASH] * 4]
        ]
    head = [words(f"cost.buy.{name}") for name in ("gpu", "kind", "each", "all", "date", "source")]
    title = words("cost.buy.title")
    st.html(parts.section(title, words("cost.buy.note")))
    st.html(parts.table(head, rows, name=title, left=(1, 4), wide=(5,)))


def _buy_row(found: PurchasePrice, devices: int, today: date, words: Words) -> list[str]:
    gpu = tables().gpus[found.gpu_id]
    cards = -(-devices // gpu.devices_per_card)
    price = found.price
    kind = words(f"cost.buy.{found.kind}")
    marked = words.html("cost.buy.marked", kind=kind) if price.recalled else Safe(kind)
    name = words("chart.equal_cards", n=whole(cards), name=_buy_name(found.gpu_id))
    age = words(f"cost.age.{freshness(price.date, today).value}")
    when = words.html("cost.buy.dated", date=day(price.date, words), age=age)
    return [name, marked, usd(price.usd), usd(price.usd * cards), when, price.source]


def _buy_name(gpu_id: str) -> str:
    gpu = card(gpu_id)
    return gpu_id if gpu is None else card_name(gpu.name)
