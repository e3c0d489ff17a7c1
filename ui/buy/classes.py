"""The section about classes of cards: what each has, and every priced card in a figure."""

import streamlit as st

from planner.card_classes import ClassFacts, Span, class_facts, class_of, newest_price
from planner.units import GB
from ui import parts
from ui.answers import tables
from ui.charts import card_classes
from ui.cost.money import day, usd
from ui.names import card_name
from ui.numbers import DASH, whole
from ui.pages.frame import plot
from ui.words import Safe, Words


def draw_classes(words: Words) -> None:
    """A table with a row a class, and the figure."""
    facts = class_facts(tables().gpus.values())
    title = words("buy.classes.title")
    st.html(parts.section(title, words("buy.classes.note")))
    names = ("class", "cards", "memory", "bandwidth", "link", "power", "price", "dates")
    head = [words(f"buy.classes.head.{name}") for name in names]
    st.html(parts.table(head, [_row(one, words) for one in facts], name=title))
    found = dots(words)
    st.html(parts.section(words("buy.classes.chart"), words("buy.classes.chart_note")))
    plot(card_classes.card_classes(found, words), "buy_classes", card_classes.alternative(found, words))
    legend = "".join(
        f"<span>{mark} {words.html(f'buy.classes.{one.card_class.value}')}</span>"
        for mark, one in zip("○■◆", facts, strict=False)
    )
    st.html(f'<div class="leg">{legend}</div>')


def dots(words: Words) -> tuple[card_classes.Dot, ...]:
    """Every card that has a class and a price."""
    found = []
    for gpu in tables().gpus.values():
        card_class, price = class_of(gpu), newest_price(gpu)
        if card_class is None or price is None or gpu.memory_nominal_gb is None:
            continue
        found.append(
            card_classes.Dot(
                card_class=card_class,
                name=card_name(gpu.name),
                memory_gib=gpu.memory_nominal_gb * gpu.devices_per_card,
                usd=price[0],
                dated=day(price[1], words),
            )
        )
    return tuple(found)


def _row(facts: ClassFacts, words: Words) -> list[str]:
    linked = words.html("buy.classes.linked", n=whole(facts.linked), all=whole(facts.cards))
    link = _span(facts.link_bytes_per_s, GB)
    dates = facts.price_dates
    return [
        words.html("buy.plain", value=words(f"buy.classes.{facts.card_class.value}")),
        whole(facts.cards),
        _span(facts.memory_gib, 1),
        _span(facts.bandwidth_bytes_per_s, GB),
        Safe(f"{link} <small>{linked}</small>"),
        _span(facts.power_w, 1),
        _dollars(facts.price_usd),
        DASH
        if dates is None
        else words("buy.classes.dates", oldest=day(dates[0], words), newest=day(dates[1], words)),
    ]


def _span(span: Span | None, unit: float) -> str:
    return DASH if span is None else f"{span.low / unit:,.0f}{DASH}{span.high / unit:,.0f}"


def _dollars(span: Span | None) -> str:
    return DASH if span is None else f"{usd(span.low)}{DASH}{usd(span.high)}"
