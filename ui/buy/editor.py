"""The widgets of the Buy page: a line a build, and the terms of owning."""

from collections.abc import Sequence
from typing import Any, Final

import streamlit as st

from ui.buy.builds import LETTERS, MOST_BUILDS, OPEN, Build
from ui.buy.columns import Column
from ui.buy.money import AMOUNTS, COUNTS, LIMITS, Terms, wrong_terms
from ui.buy.state import add_build, builds, change_build, change_terms, remove_build, terms
from ui.buy.wording import problem_text
from ui.catalog import described_cards, gpu_labels
from ui.cost.currency import USD, draw_currency, exchange
from ui.cost.money import usd
from ui.document import Document
from ui.numbers import as_typed, whole
from ui.state import load
from ui.whole import FORMAT, shown, typed
from ui.words import Words

NUMBERS: Final = (("price", 140, 1000.0), ("rent_per_hour", 132, 0.5), ("power_w", 132, 100.0))
STEPS: Final = {
    "use_percent": 5.0,
    "per_kwh": 0.01,
    "cooling_percent": 5.0,
    "idle_percent": 5.0,
    "hosting": 100.0,
    "interest_percent": 0.5,
    "resale_percent": 5.0,
    "life_months": 1.0,
}
TERMS_IN_ROW: Final = 4
ADDED: Final = "h200-sxm-141gb"
"""The card of a new line."""


def draw_builds(document: Document, columns: Sequence[Column], words: Words) -> None:
    """The currency, a line of widgets a build, what is wrong with it, and a button for one more.

    Args:
        document: The open question, which may describe cards.
        columns: What is known of the builds, for the fields that are left empty.
        words: The language.
    """
    found = {one.letter: one for one in columns}
    draw_currency(words, "buy")
    with st.container(key="buybuilds", gap="small"):
        for letter, (line, build) in zip(LETTERS, list(builds().items()), strict=False):
            _line(line, letter, build, found.get(letter), document, words)
            column = found.get(letter)
            if column is not None and column.problem is not None:
                text = words.html("buy.not_counted", letter=letter, why=problem_text(column, words))
                st.html(f'<div class="msg bad" role="alert">{text}</div>')
        if len(builds()) < MOST_BUILDS:
            with st.container(key="quiet_add_build"):
                st.button(words("buy.add"), type="tertiary", key="buy_add", on_click=add_build, args=(ADDED,))


def _line(
    line: int, letter: str, build: Build, column: Column | None, document: Document, words: Words
) -> None:
    labels = {OPEN: words("buy.open"), **dict.fromkeys(described_cards(document), ""), **gpu_labels()}
    first = letter == LETTERS[0]
    visible: Any = "visible" if first else "collapsed"

    def label(name: str) -> str:
        text = words(f"buy.field.{name}", money=exchange().sign)
        return text if first else words("buy.field.of", label=text, letter=letter)

    options = list(labels) if build.gpu_id in labels else [*labels, build.gpu_id]
    with st.container(key=f"buyrow_{line}", horizontal=True, vertical_alignment="bottom", gap="small"):
        st.html(f'<div class="letter">{letter}</div>', width="content")
        st.selectbox(
            label("gpu"),
            options,
            format_func=lambda gpu_id: labels.get(gpu_id) or words("buy.described", name=gpu_id),
            label_visibility=visible,
            width=230,
            **_bound(line, "gpu_id", build.gpu_id),
        )
        _count(line, build, column, label("count"), visible)
        for name, width, step in NUMBERS:
            st.number_input(
                label(name),
                value=None,
                step=step,
                format="%g",
                placeholder=_placeholder(name, column, words),
                label_visibility=visible,
                width=width,
                **_bound(line, name, getattr(build, name)),
            )
        if len(builds()) > 1:
            st.button(
                words("buy.remove", letter=letter),
                type="tertiary",
                key=f"buy_{line}_remove",
                on_click=remove_build,
                args=(line,),
            )
        if column is not None and column.problem is None and build.gpu_id != OPEN:
            st.button(
                words("buy.plan_it", letter=letter),
                type="tertiary",
                key=f"buy_{line}_plan",
                on_click=load,
                args=(column.on.document,),
                help=words("buy.plan_help"),
            )


def _count(line: int, build: Build, column: Column | None, label: str, visible: Any) -> None:
    """How many cards; those of the open question are counted on its own page, and only shown here."""
    look: dict[str, Any] = {"value": None, "step": 1.0, "format": FORMAT, "width": 84}
    if build.gpu_id != OPEN:
        bound = _bound(line, "count", shown(build.count))
        st.number_input(label, label_visibility=visible, **look, **bound)
        return
    key = f"buy_{line}_open"
    st.session_state[key] = None if column is None else shown(sum(count for _, count in column.cards))
    st.number_input(label, label_visibility=visible, **look, key=key, disabled=True)


def _placeholder(name: str, column: Column | None, words: Words) -> str:
    """What holds where nothing is typed."""
    known = None
    if column is not None:
        known = {"price": column.price, "rent_per_hour": column.rent, "power_w": column.power}[name]
    if known is None:
        return words("buy.not_known")
    return whole(round(known.value)) if name == "power_w" else usd(known.value)


def _bound(line: int, field: str, value: Any) -> dict[str, Any]:
    """Key and callback of a widget that shows a field of a line and writes it back."""
    key = f"buy_{line}_{field}"
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    return {"key": key, "on_change": _take, "args": (line, field)}


def _take(line: int, field: str) -> None:
    value = st.session_state[f"buy_{line}_{field}"]
    change_build(line, field, typed(value) if field == "count" else value)


def draw_terms(words: Words) -> None:
    """The terms of owning, and what is wrong with them."""
    current = terms()
    names = list(LIMITS)
    with st.grid(TERMS_IN_ROW, min_column_width=130, gap="small"):
        for name in names:
            _term(name, current, words)
    for name in wrong_terms(current):
        low, high = LIMITS[name]
        given = getattr(current, name)
        text = words.html(
            f"buy.terms.wrong{'_whole' if name in COUNTS else ''}",
            field=words(f"buy.terms.{name}", money=exchange().sign),
            given=words("buy.problem.empty") if given is None else as_typed(given),
            low=f"{low:g}",
            high=f"{high:,g}",
        )
        st.html(f'<div class="msg bad" role="alert">{text}</div>')


def _term(name: str, current: Terms, words: Words) -> None:
    key = f"buy_term_{name}"
    kept = getattr(current, name)
    in_dollars = name in AMOUNTS and name not in current.typed and exchange().code != USD
    value = None if in_dollars else shown(kept)
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    st.number_input(
        words(f"buy.terms.{name}", money=exchange().sign),
        value=None,
        step=STEPS[name],
        format="%g",
        placeholder=usd(kept) if in_dollars else None,
        key=key,
        on_change=_take_term,
        args=(name,),
    )


def _take_term(name: str) -> None:
    value = st.session_state[f"buy_term_{name}"]
    change_terms(name, typed(value) if name in COUNTS else value)
