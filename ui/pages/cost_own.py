"""The editor of the user's own prices: a line of widgets each, kept while other pages are open."""

from dataclasses import asdict, replace
from typing import Any, Final

import streamlit as st

from planner.plan_types import Plan
from ui.answers import tables
from ui.catalog import described_cards, described_gpus, gpu_labels
from ui.cost.currency import draw_currency, exchange
from ui.cost.own import OwnPrice, own_quote, problem_of
from ui.cost.quotes import Quote
from ui.document import Document
from ui.numbers import DASH, as_typed
from ui.whole import FORMAT, shown, typed
from ui.words import Words

_PRICES: Final = "cost_own_prices"
_NEXT: Final = "cost_own_next"
FIELDS: Final = ("gpu_id", "name", "cards", "per_hour")
BY_NAME: Final = ""


def own_prices() -> dict[int, OwnPrice]:
    """What was typed, by line; a line keeps its number when others go."""
    found: dict[int, OwnPrice] = st.session_state.setdefault(_PRICES, {})
    return found


def own_quotes(document: Document) -> tuple[Quote, ...]:
    """The lines that make a price, in dollars.

    Args:
        document: The open question, which may describe cards.
    """
    known = tables()
    gpus = dict(known.gpus) | described_gpus(document)
    made = (own_quote(own, known.offers, gpus, exchange()) for own in own_prices().values())
    return tuple(quote for quote in made if quote is not None)


def draw_own_prices(plan: Plan, document: Document, words: Words) -> None:
    """The currency, a line of widgets a price, what is wrong with it, and a button for one more."""
    prices = own_prices()
    draw_currency(words, "cost")
    offers = tables().offers
    with st.container(key="ownprices", gap="small"):
        for position, (line, own) in enumerate(prices.items(), start=1):
            _line(line, position, own, document, words)
            problem = problem_of(own, offers)
            if problem is not None:
                tone = "m" if problem == "no_price" else "bad"
                given = {"cards": own.cards, "price": own.per_hour}.get(problem)
                text = words.html(
                    f"cost.own.problem.{problem}",
                    n=position,
                    given=as_typed(given) if given is not None else DASH,
                )
                st.html(f'<div class="msg {tone}" role="alert">{text}</div>')
        with st.container(key="quiet_add_price"):
            st.button(words("cost.own.add"), type="tertiary", key="own_add", on_click=_add, args=(plan,))


def _line(line: int, position: int, own: OwnPrice, document: Document, words: Words) -> None:
    described = {name: words("buy.described", name=name) for name in described_cards(document)}
    labels = described | gpu_labels()
    kept = [own.gpu_id] if own.gpu_id and own.gpu_id not in labels else []

    def label(name: str) -> str:
        text = words(f"cost.own.{name}", money=exchange().sign)
        return text if position == 1 else words("cost.own.of", label=text, n=position)

    visible: Any = "visible" if position == 1 else "collapsed"
    with st.container(key=f"ownrow_{line}", horizontal=True, vertical_alignment="bottom", gap="small"):
        st.selectbox(
            label("gpu"),
            [BY_NAME, *labels, *kept],
            format_func=lambda gpu_id: labels.get(gpu_id, gpu_id) or words("cost.own.by_name"),
            label_visibility=visible,
            width=210,
            **_bound(line, "gpu_id", own.gpu_id or BY_NAME),
        )
        st.text_input(
            label("name"),
            placeholder=words("cost.own.name_example"),
            max_chars=80,
            label_visibility=visible,
            width=230,
            **_bound(line, "name", own.name),
        )
        st.number_input(
            label("cards"),
            value=None,
            step=1.0,
            format=FORMAT,
            label_visibility=visible,
            width=110,
            **_bound(line, "cards", shown(own.cards)),
        )
        st.number_input(
            label("per_hour"),
            value=None,
            step=0.1,
            format="%.2f",
            label_visibility=visible,
            width=150,
            **_bound(line, "per_hour", own.per_hour),
        )
        st.button(
            words("cost.own.remove", n=position),
            type="tertiary",
            key=f"own_{line}_remove",
            on_click=_remove,
            args=(line,),
        )


def _bound(line: int, field: str, value: Any) -> dict[str, Any]:
    """Key and callback of a widget that shows a field of a line and writes it back."""
    key = f"own_{line}_{field}"
    if st.session_state.get(key) != value:
        st.session_state[key] = value
    return {"key": key, "on_change": _take, "args": (line, field)}


def _take(line: int, field: str) -> None:
    value = st.session_state[f"own_{line}_{field}"]
    if field == "gpu_id":
        value = value or None
    elif field == "cards":
        value = typed(value)
    prices = own_prices()
    if line in prices:
        prices[line] = replace(prices[line], **{field: value})


def _add(plan: Plan) -> None:
    """A new line for the open question's first card, its price left open."""
    line = st.session_state.get(_NEXT, 0)
    st.session_state[_NEXT] = line + 1
    first = plan.resolved.hardware.devices[0].gpu
    known = first if first in gpu_labels() or plan.resolved.hardware.devices[0].card is not None else None
    own_prices()[line] = OwnPrice(gpu_id=known, cards=plan.resolved.hardware.num_devices)


def _remove(line: int) -> None:
    gone = own_prices().pop(line, None)
    for field in asdict(gone) if gone is not None else ():
        st.session_state.pop(f"own_{line}_{field}", None)
