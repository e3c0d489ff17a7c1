"""Dates of prices: the first day they can mean, and how old that is."""

from datetime import date

import pytest

from planner.prices import Freshness, earliest_day, freshness


@pytest.mark.parametrize(
    ("text", "day"),
    [("2026", date(2026, 1, 1)), ("2026-02", date(2026, 2, 1)), ("2026-02-28", date(2026, 2, 28))],
)
def test_the_first_day_a_date_can_mean(text: str, day: date) -> None:
    assert earliest_day(text) == day


@pytest.mark.parametrize(
    "text", ["", "26", "2026-2", "2026-13", "2026-02-30", "2026-02-28T00:00", "2025-20", " 2026"]
)
def test_what_is_not_a_date(text: str) -> None:
    with pytest.raises(ValueError, match=r"date|month|day"):
        earliest_day(text)


@pytest.mark.parametrize(
    ("text", "tier"),
    [
        ("2026-11-29", Freshness.RECENT),
        ("2026-08-31", Freshness.RECENT),
        ("2026-08-30", Freshness.YEAR),
        ("2026", Freshness.YEAR),
        ("2025-11-29", Freshness.YEAR),
        ("2025-11-28", Freshness.OLDER),
        ("2025", Freshness.OLDER),
    ],
)
def test_tiers_of_age(text: str, tier: Freshness) -> None:
    assert freshness(text, date(2026, 11, 29)) is tier
