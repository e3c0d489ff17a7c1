"""Owning and renting a build, from the terms that are set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.cost import Ownership, Rent, buy_or_rent
from planner.ledger import Category
from planner.plan_types import Verdict
from ui import answers
from ui.buy.builds import Known
from ui.buy.money import LIMITS, Terms, costs_of, months_by_use, wrong_terms
from ui.cost.layout import Rented
from ui.cost.quotes import quotes
from ui.cost.replans import Fit, Rate
from ui.cost.rows import Row, Status

PRICE = Known(value=100_000, how="typed")
POWER = Known(value=5_000, how="typed")
RENT = Known(value=20, how="typed")
RATE = Rate(tokens_per_s=1000, low_frac=0.8, high_frac=1.3)


def with_term(name: str, value: Any) -> Terms:
    return replace(Terms(), **{name: value})


def test_per_cents_reach_the_planner_as_shares() -> None:
    found = costs_of(PRICE, POWER, RENT, RATE, Terms(hosting=100))
    own = Ownership(
        purchase_usd=100_000,
        power_w=5_000,
        usd_per_kwh=0.12,
        idle_power_frac=0.2,
        cooling_frac=0.4,
        hosting_usd_per_month=100,
        interest_frac_per_year=0.05,
        resale_frac=0.3,
        life_months=36,
    )
    assert found is not None
    assert found.own == own
    assert found.found == buy_or_rent(own, Rent(usd_per_hour=20), 0.6, 1000)


def test_without_a_rent_only_owning_is_told() -> None:
    found = costs_of(PRICE, POWER, None, RATE, Terms())
    assert found is not None
    assert found.owned_usd is not None
    assert (found.rented_usd, found.least_use_frac) == (None, None)


def test_a_million_rented_tokens_cost_what_the_cost_page_says() -> None:
    listed = quotes(answers.tables().offers)
    quote = next(each for each in listed if each.per_card and each.gpu_id == "h100-sxm-80gb")
    fit = Fit(verdict=Verdict.FITS, peak_bytes=1, headroom_bytes=1, largest=Category.WEIGHTS, rate=RATE)
    rented = Rented(instances=None, paid=8, used=8)
    gpu = answers.tables().gpus["h100-sxm-80gb"]
    row = Row(quote=quote, status=Status.FITS, gpu=gpu, rented=rented, fit=fit)
    rent = Known(value=8 * quote.usd_per_hour, how="offer")
    for terms in (Terms(), Terms(interest_percent=20, use_percent=15, life_months=100)):
        found = costs_of(PRICE, POWER, rent, RATE, terms)
        assert found is not None
        assert found.rented_usd == row.usd_per_million_tokens == rent.value / (1000 * 3600) * 1e6


def test_without_price_or_power_nothing_is() -> None:
    assert costs_of(None, POWER, RENT, RATE, Terms()) is None
    assert costs_of(PRICE, None, RENT, RATE, Terms()) is None


def test_a_machine_that_never_works_has_no_price_for_tokens() -> None:
    found = costs_of(PRICE, POWER, RENT, RATE, Terms(use_percent=0))
    assert found is not None
    assert found.owned_usd is None
    assert found.found.pay_back_month is None


def test_the_pay_back_by_use_falls_and_begins_where_it_comes_within_ten_years() -> None:
    found = costs_of(PRICE, POWER, RENT, RATE, Terms())
    assert found is not None
    by_use = dict(months_by_use(found))
    assert by_use[0.6] == found.found.pay_back_month
    assert 0.02 not in by_use
    months = [by_use[use] for use in sorted(by_use)]
    assert months == sorted(months, reverse=True)
    alone = costs_of(PRICE, POWER, None, RATE, Terms())
    assert alone is not None
    assert months_by_use(alone) == ()


@pytest.mark.parametrize("name", list(LIMITS))
def test_wrong_terms_are_named_and_not_used(name: str) -> None:
    low, high = LIMITS[name]
    for value in (None, low - 1, high + 1):
        given = with_term(name, value)
        assert wrong_terms(given) == (name,)
        assert costs_of(PRICE, POWER, RENT, RATE, given) is None
    for value in (low, high):
        assert costs_of(PRICE, POWER, RENT, RATE, with_term(name, value)) is not None
