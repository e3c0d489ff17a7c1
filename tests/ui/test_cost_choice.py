"""Rows of offers ranked, listed and filtered: never two kinds in one ranking."""

from __future__ import annotations

import pytest

from planner.prices import Freshness
from tests.ui.cost_rows_made import TODAY, planned, quote, row
from ui.cost import choice
from ui.cost.choice import Filter, Show
from ui.cost.quotes import Kind
from ui.cost.rows import Reason, Row, Status, table_rows
from ui.examples import default_document


@pytest.mark.parametrize("rank", [choice.cheapest, choice.fewest_cards, choice.frontier])
def test_two_kinds_are_never_ranked_together(rank: object) -> None:
    mixed = [row(Kind.ON_DEMAND), row(Kind.SPOT, usd=0.1)]
    with pytest.raises(ValueError, match="different kinds"):
        rank(mixed, TODAY)  # type: ignore[operator]


def test_the_cheapest_is_of_its_kind_and_of_the_last_year() -> None:
    rows = [
        row(usd=5, name="dear"),
        row(usd=3, name="right"),
        row(usd=1, name="old", day="2025-03-03"),
        row(usd=1, name="tight", status=Status.TIGHT),
    ]
    best = choice.cheapest(rows, TODAY)
    assert best is not None
    assert best.quote.name == "right"
    assert choice.cheapest([row(day="2025")], TODAY) is None
    assert choice.cheapest([row(Kind.OWN, day=None)], TODAY) is not None


def test_the_fewest_cards_are_the_cheapest_of_those() -> None:
    rows = [row(usd=1, used=8), row(usd=9, used=2, name="b"), row(usd=4, used=2, name="a")]
    best = choice.fewest_cards(rows, TODAY)
    assert best is not None
    assert best.quote.name == "a"


def test_no_row_beats_the_line_on_both_price_and_room() -> None:
    document = default_document()
    rows = choice.of_kind(table_rows(document, planned(document)), Kind.ON_DEMAND)
    line = choice.frontier(rows, TODAY)
    assert len(line) > 2
    prices = [found.usd_per_hour or 0 for found in line]
    room = [found.headroom_bytes or 0 for found in line]
    assert prices == sorted(prices)
    assert room == sorted(room)
    for other in choice.rankable(rows, TODAY):
        price, left = other.usd_per_hour or 0, other.headroom_bytes or 0
        assert any(p <= price and r >= left for p, r in zip(prices, room, strict=True))


def test_rows_are_listed_cheapest_first_and_unpriced_ones_last() -> None:
    unpriced = Row(quote=quote(cards=None), status=Status.NOT_COMPARABLE, reason=Reason.NO_COUNT)
    listed = choice.by_price([row(usd=7), unpriced, row(usd=2)])
    assert [found.usd_per_hour for found in listed] == [2, 7, None]


def test_spot_saves_on_instances_that_have_both_prices() -> None:
    rows = [
        row(Kind.SPOT, usd=1, on_demand=4),
        row(Kind.SPOT, usd=1, on_demand=2),
        row(Kind.SPOT, usd=3, on_demand=4),
        row(Kind.SPOT, usd=1, on_demand=None),
        row(Kind.SPOT, usd=1, on_demand=100, status=Status.SHORT),
        row(Kind.ON_DEMAND, usd=9),
    ]
    assert choice.spot_savings(rows) == (0.5, 3)
    assert choice.spot_savings(rows[3:]) is None


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (Filter(), ["fits", "old"]),
        (Filter(show=Show.TIGHT), ["fits", "old", "tight"]),
        (Filter(show=Show.ALL), ["fits", "old", "tight", "short"]),
        (Filter(age=Freshness.RECENT), ["fits"]),
        (Filter(provider="Cloud B"), []),
        (Filter(provider="Cloud A", gpu="H100 SXM5 80GB"), ["fits", "old"]),
        (Filter(gpu="L4 24GB"), []),
    ],
)
def test_filters(wanted: Filter, names: list[str]) -> None:
    rows = [
        row(name="fits"),
        row(name="old", day="2025"),
        row(name="tight", status=Status.TIGHT),
        row(name="short", status=Status.SHORT),
    ]
    assert [found.quote.name for found in choice.filtered(rows, wanted, TODAY)] == names


@pytest.mark.parametrize(("text", "number"), [("", 1), ("h100 WEST", 1), ("h100 east", 0), ("cloud big", 1)])
def test_search_wants_every_word(text: str, number: int) -> None:
    assert len(choice.searched([row(name="big.8x")], text)) == number


def test_dates_span_from_the_oldest_to_the_newest() -> None:
    assert choice.date_span([row(day="2026"), row(day="2024-12-30"), row(day="2026-10")]) == (
        "2024-12-30",
        "2026-10",
    )
    assert choice.date_span([row(Kind.OWN, day=None)]) is None
