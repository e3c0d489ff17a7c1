"""Amounts typed in another currency count at the user's own rate, and not without one."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from tests.ui.buy.test_page import opened as opened_buy
from tests.ui.conftest import checked, headline, html
from tests.ui.test_cost_page import opened as opened_cost
from ui import answers
from ui.buy import wording
from ui.buy.builds import Build, in_dollars
from ui.buy.columns import columns
from ui.buy.money import Terms, terms_in_dollars
from ui.buy.state import with_term
from ui.buy.wording import lack_of
from ui.cost.currency import Exchange, said
from ui.cost.own import OwnPrice, own_quote
from ui.cost.quotes import quotes
from ui.document import put
from ui.examples import default_document
from ui.words import words_for

if TYPE_CHECKING:
    from pathlib import Path

WORDS = words_for("en")
CNY = Exchange(code="CNY", usd_per_unit=0.14, dated=date(2026, 11, 30))


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path))


def test_the_articles_yuan_an_hour_in_dollars() -> None:
    tables = answers.tables()
    own = OwnPrice(gpu_id="a100-sxm-80gb", cards=8, per_hour=298)
    made = own_quote(own, tables.offers, tables.gpus, CNY)
    assert made is not None
    assert made.usd_per_hour == pytest.approx(41.72)
    assert own_quote(own, tables.offers, tables.gpus, Exchange(code="CNY")) is None
    assert said(CNY, words_for("en")) == "Typed amounts: 1 CNY = $0.14, 30 Nov 2026."


@pytest.mark.parametrize("rate", [None, 0.0, -1.0, float("nan"), float("inf"), 2e6])
def test_a_rate_that_cannot_be_turns_nothing_into_dollars(rate: float | None) -> None:
    wrong = Exchange(code="EUR", usd_per_unit=rate)
    assert not wrong.is_known
    assert wrong.usd(10) is None
    assert Exchange(usd_per_unit=rate).usd(10) == 10


def test_builds_and_terms_are_turned_but_not_power() -> None:
    build = in_dollars(Build(price=100, rent_per_hour=10, power_w=500), CNY)
    assert (build.price, build.rent_per_hour, build.power_w) == pytest.approx((14, 1.4, 500))
    terms = terms_in_dollars(with_term(with_term(Terms(), "per_kwh", 1), "hosting", 1000), CNY)
    assert (terms.per_kwh, terms.hosting, terms.use_percent) == pytest.approx((0.14, 140, 60))


def test_a_default_stays_in_dollars_until_it_is_typed() -> None:
    unknown = Exchange(code="CNY")
    assert terms_in_dollars(Terms(), CNY) == terms_in_dollars(Terms(), unknown) == Terms()
    typed = with_term(Terms(), "per_kwh", 0.12)
    assert terms_in_dollars(typed, CNY).per_kwh == pytest.approx(0.0168)
    assert terms_in_dollars(typed, unknown).per_kwh is None
    assert with_term(typed, "per_kwh", None) == Terms()


def test_the_cost_page_takes_yuan() -> None:
    page = opened_cost()
    page.selectbox(key="currency_cost_code").set_value("CNY")
    page.button(key="own_add").click()
    checked(page.run())
    page.selectbox(key="own_0_gpu_id").set_value("a100-sxm-80gb")
    page.number_input(key="own_0_per_hour").set_value(298.0)
    page.segmented_control(key="cost_kind").set_value("own")
    text = html(checked(page.run()))
    assert "Amounts typed in CNY count once its rate is given" in text
    assert headline(page) == "No prices of your own yet"
    page.number_input(key="currency_cost_usd_per_unit").set_value(0.14)
    text = html(checked(page.run()))
    assert "count once its rate" not in text
    assert "$42" in text


def test_the_buy_page_takes_the_same_currency() -> None:
    page = opened_buy()
    said_first = headline(page)
    page.selectbox(key="currency_buy_code").set_value("EUR")
    assert headline(checked(page.run())) == said_first
    electricity = page.number_input(key="buy_term_per_kwh")
    assert (electricity.label, electricity.value, electricity.placeholder) == (
        "Electricity, EUR/kWh", None, "$0.12",
    )  # fmt: skip
    page.number_input(key="currency_buy_usd_per_unit").set_value(1.1)
    page.number_input(key="buy_1_price").set_value(100_000.0)
    text = html(checked(page.run()))
    assert "$110,000" in text
    assert "1 EUR = $1.1" in text


def test_an_amount_without_its_rate_is_told_as_that() -> None:
    unknown, document = Exchange(code="AUD"), default_document()
    builds = {0: Build(gpu_id="h100-sxm-80gb", count=8, price=300_000)}
    listed = quotes(answers.tables().offers)
    for typed, terms in (
        (builds, Terms()),
        ({0: Build(gpu_id="h100-sxm-80gb", count=8)}, with_term(Terms(), "per_kwh", 1)),
    ):
        given = terms_in_dollars(terms, unknown)
        found = columns(typed, document, given, listed, date(2026, 11, 30), unknown)
        assert lack_of(found, given) == "rate"
        said = wording.headline(found, WORDS, "rate", "AUD")
        assert said == "The job fits, but amounts typed in AUD need the rate of AUD"
    found = columns(builds, document, Terms(), listed, date(2026, 11, 30), unknown)
    assert wording.trouble(found, WORDS) == [
        "<b>A</b>: Price is typed in a currency whose rate is not given."
    ]
    known = columns(
        builds, document, Terms(), listed, date(2026, 11, 30), Exchange(code="AUD", usd_per_unit=0.65)
    )
    assert (lack_of(known, Terms()), wording.trouble(known, WORDS)) == ("cost", [])
    assert lack_of(known, with_term(Terms(), "resale_percent", 130)) == "terms"


def test_a_price_of_ones_own_for_a_described_card() -> None:
    card = {"memory_gib": 288, "like": "h200-sxm-141gb"}
    page = opened_cost(
        put(default_document(), "hardware.devices", [{"gpu": "next card", "count": 6, "card": card}])
    )
    page.button(key="own_add").click()
    checked(page.run())
    page.number_input(key="own_0_per_hour").set_value(12.0)
    page.segmented_control(key="cost_kind").set_value("own")
    checked(page.run())
    assert "6 × next card" in html(page)
    assert "$12" in headline(page)
