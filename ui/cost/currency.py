"""The currency that amounts are typed in, at a rate of the user's own with its date."""

import math
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, Final

import streamlit as st

from ui.cost.money import day
from ui.words import Words

USD: Final = "USD"
CODES: Final = (
    USD,
    "AUD",
    "BRL",
    "CAD",
    "CHF",
    "CNY",
    "EUR",
    "GBP",
    "HKD",
    "INR",
    "JPY",
    "KRW",
    "SEK",
    "SGD",
    "TWD",
)
MOST_RATE: Final = 1_000_000.0
_EXCHANGE: Final = "exchange"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A currency and what it is worth. No rate is shipped: they change by the day.

    Attributes:
        code: ISO 4217.
        usd_per_unit: Dollars for one unit, as typed; not used for dollars.
        dated: The day of the rate.
    """

    code: str = USD
    usd_per_unit: float | None = None
    dated: date | None = None

    @property
    def is_known(self) -> bool:
        """Whether amounts can be turned into dollars."""
        return self.code == USD or _is_rate(self.usd_per_unit)

    def usd(self, amount: float | None) -> float | None:
        """An amount in dollars; None where it or the rate is not known."""
        if amount is None or self.code == USD:
            return amount
        return amount * self.usd_per_unit if self.usd_per_unit is not None and self.is_known else None

    @property
    def sign(self) -> str:
        """What stands beside amounts that are typed."""
        return "$" if self.code == USD else self.code


def exchange() -> Exchange:
    """The session's currency."""
    found: Exchange = st.session_state.setdefault(_EXCHANGE, Exchange())
    return found


def draw_currency(words: Words, place: str) -> None:
    """The currency, and its rate and day where it is not the dollar.

    Args:
        words: The language.
        place: The page, for the widgets' keys.
    """
    current = exchange()
    with st.container(key=f"currency_{place}", horizontal=True, vertical_alignment="bottom", gap="small"):
        st.selectbox(words("currency.code"), CODES, width=130, **_bound(place, "code", current.code))
        if current.code != USD:
            st.number_input(
                words("currency.rate", code=current.code),
                value=None,
                step=0.01,
                format="%g",
                width=150,
                **_bound(place, "usd_per_unit", current.usd_per_unit),
            )
            st.date_input(
                words("currency.dated"),
                value=None,
                max_value=datetime.now(UTC).date(),
                width=150,
                **_bound(place, "dated", current.dated),
            )
    if not current.is_known:
        text = words.html("currency.no_rate", code=current.code)
        st.html(f'<div class="msg bad" role="alert">{text}</div>')


def said(current: Exchange, words: Words) -> str:
    """The rate in words; empty for dollars."""
    if current.code == USD or current.usd_per_unit is None:
        return ""
    when = words("currency.undated") if current.dated is None else day(current.dated.isoformat(), words)
    return words("currency.said", code=current.code, rate=f"{current.usd_per_unit:.6g}", date=when)


def _is_rate(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and 0 < value <= MOST_RATE


def _bound(place: str, field: str, value: Any) -> dict[str, Any]:
    """Key and callback of a widget that shows a field and writes it back; another page has another widget."""
    key = f"currency_{place}_{field}"
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    return {"key": key, "on_change": _take, "args": (place, field)}


def _take(place: str, field: str) -> None:
    value = st.session_state[f"currency_{place}_{field}"]
    current = exchange()
    if field == "code":
        st.session_state[_EXCHANGE] = Exchange(code=value, dated=datetime.now(UTC).date())
    else:
        st.session_state[_EXCHANGE] = replace(current, **{field: value})
