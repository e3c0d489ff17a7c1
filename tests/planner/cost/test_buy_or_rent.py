"""Buying against renting."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost import Ownership, Rent, buy_or_rent, least_utilisation_frac
from planner.cost.buy_or_rent import MONTH_HOURS, resale_usd, running_usd_per_month
from planner.cost.run_cost import usd_per_million_tokens

PLAIN = Ownership(
    purchase_usd=10_000, power_w=1000, usd_per_kwh=0.1, idle_power_frac=0, cooling_frac=0,
    interest_frac_per_year=0, resale_frac=0,
)  # fmt: skip


def test_break_even_by_hand() -> None:
    found = buy_or_rent(PLAIN, Rent(usd_per_hour=2.1), utilisation_frac=0.5)
    assert found.running_usd_per_month == pytest.approx(0.1 * MONTH_HOURS / 2)
    assert found.rent_usd_per_month == pytest.approx(2.1 * MONTH_HOURS / 2)
    assert found.pay_back_month == 14  # 10,000 / (2.0 x 365.25) = 13.7
    assert found.break_even_month == 14


def test_power_counts_idling_and_cooling() -> None:
    own = replace(PLAIN, idle_power_frac=0.2, cooling_frac=0.5, hosting_usd_per_month=100)
    energy_kwh = MONTH_HOURS * (0.5 + 0.5 * 0.2) * 1.5
    assert running_usd_per_month(own, 0.5) == pytest.approx(energy_kwh * 0.1 + 100)


def test_resale_falls_by_the_same_share_each_month() -> None:
    own = replace(PLAIN, resale_frac=0.25, life_months=36)
    assert [resale_usd(own, month) for month in (0, 18, 36)] == pytest.approx([10_000, 5_000, 2_500])


def test_a_machine_that_can_be_sold_breaks_even_before_it_is_paid_back() -> None:
    found = buy_or_rent(replace(PLAIN, resale_frac=0.5), Rent(usd_per_hour=2.1), utilisation_frac=0.5)
    assert found.pay_back_month == 14
    assert found.break_even_month is not None
    assert found.break_even_month < 14


def test_a_machine_that_stands_idle_never_pays_back() -> None:
    assert buy_or_rent(PLAIN, Rent(usd_per_hour=2.1), utilisation_frac=0.02).break_even_month is None


def test_tokens_share_the_cost_of_the_whole_life() -> None:
    found = buy_or_rent(PLAIN, Rent(usd_per_hour=2.1), utilisation_frac=0.5, tokens_per_s=1000)
    tokens = 1000 * 3600 * MONTH_HOURS * 0.5 * 36
    assert found.rented_usd_per_million_tokens == pytest.approx(2.1 / 3.6)
    assert found.owned_usd_per_million_tokens == pytest.approx(
        (10_000 + 36 * found.running_usd_per_month) / tokens * 1e6
    )


def test_interest_discounts_tokens_with_their_dollars() -> None:
    own = replace(PLAIN, interest_frac_per_year=0.05)
    rent = Rent(usd_per_hour=2.1)
    found = buy_or_rent(own, rent, utilisation_frac=0.5, tokens_per_s=1000)
    assert found.rented_usd_per_million_tokens == usd_per_million_tokens(2.1, 1000)
    tokens = sum(1000 * 3600 * MONTH_HOURS * 0.5 * 1.05 ** (-month / 12) for month in range(1, 37))
    assert found.owned_usd_per_million_tokens == pytest.approx(found.owned_usd[35] / tokens * 1e6)
    assert found.rented_usd_per_million_tokens == pytest.approx(found.rented_usd[35] / tokens * 1e6)
    least = least_utilisation_frac(own, rent)
    assert least is not None
    same = buy_or_rent(own, rent, least, tokens_per_s=1000)
    assert same.owned_usd_per_million_tokens == pytest.approx(same.rented_usd_per_million_tokens)


@given(st.floats(0.05, 1), st.floats(0.05, 1))
def test_more_use_never_delays_the_pay_back(one: float, other: float) -> None:
    low, high = sorted((one, other))
    months = [
        buy_or_rent(PLAIN, Rent(usd_per_hour=2.1), use).break_even_month or 10_000 for use in (low, high)
    ]
    assert months[1] <= months[0]


@given(st.floats(0, 0.2), st.floats(0, 0.2))
def test_dearer_money_never_hastens_it(one: float, other: float) -> None:
    low, high = sorted((one, other))
    months = [
        buy_or_rent(replace(PLAIN, interest_frac_per_year=rate), Rent(usd_per_hour=2.1), 0.5).break_even_month
        or 10_000
        for rate in (low, high)
    ]
    assert months[0] <= months[1]


def test_the_least_use_by_hand() -> None:
    own = replace(PLAIN, hosting_usd_per_month=50)
    # 10,000 / 36 + 50 a month against (2.1 - 0.1) an hour used.
    assert least_utilisation_frac(own, Rent(usd_per_hour=2.1)) == pytest.approx(
        (10_000 / 36 + 50) / (2.0 * MONTH_HOURS)
    )


@given(st.floats(0.05, 1) | st.floats(1, 40), st.floats(0, 1), st.floats(0, 0.15), st.floats(0, 0.9))
def test_at_the_least_use_both_ways_cost_the_same(
    usd_per_hour: float, idle: float, interest: float, resale: float
) -> None:
    own = replace(PLAIN, idle_power_frac=idle, interest_frac_per_year=interest, resale_frac=resale)
    rent = Rent(usd_per_hour=usd_per_hour)
    use = least_utilisation_frac(own, rent)
    if use is None:
        found = buy_or_rent(own, rent, 1.0)
        assert found.owned_usd[35] > found.rented_usd[35] * 0.999
    else:
        found = buy_or_rent(own, rent, use)
        assert found.owned_usd[35] == pytest.approx(found.rented_usd[35], rel=1e-9)


def test_a_rent_below_the_power_bill_is_never_beaten() -> None:
    assert least_utilisation_frac(PLAIN, Rent(usd_per_hour=0.05)) is None


def test_a_machine_that_keeps_its_price_needs_no_use() -> None:
    own = replace(PLAIN, resale_frac=1)
    assert least_utilisation_frac(own, Rent(usd_per_hour=2.1)) == 0


@pytest.mark.parametrize(
    ("own", "use", "message"),
    [
        (replace(PLAIN, purchase_usd=-1), 0.5, "purchase_usd: -1; allowed: 0 or more"),
        (replace(PLAIN, resale_frac=1.5), 0.5, "resale_frac: 1.5; allowed: 0 to 1"),
        (replace(PLAIN, life_months=0), 0.5, "life_months: 0; allowed: 1 to 120"),
        (PLAIN, 1.1, "utilisation_frac: 1.1; allowed: 0 to 1"),
    ],
)
def test_bad_numbers_are_named(own: Ownership, use: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        buy_or_rent(own, Rent(usd_per_hour=2.1), use)
