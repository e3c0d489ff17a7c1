"""What is known of a build: price, power, rent; and what cannot be one."""

from __future__ import annotations

from datetime import date

import pytest

from planner.hardware import Gpu
from ui import answers
from ui.buy.builds import OPEN, Build, Known, device_rows, power_of, price_of, problem_of, rent_of
from ui.cost.quotes import quotes

TODAY = date(2026, 11, 30)


def gpu(gpu_id: str) -> Gpu:
    return answers.tables().gpus[gpu_id]


def price(*cards: tuple[str, int], typed: float | None = None) -> Known | None:
    counted = tuple((gpu(name), count) for name, count in cards)
    return price_of(Build(gpu_id="x", price=typed), counted, answers.tables().nodes)


def test_a_whole_server_has_its_own_price_and_power() -> None:
    known = price(("h100-sxm-80gb", 8))
    assert known == Known(value=255_237, how="node", date="2025-01-31", source="HGX H100 8-GPU server")
    twice = price(("h100-sxm-80gb", 16))
    assert twice is not None
    assert twice.value == 2 * 255_237
    power = power_of(Build(), ((gpu("h100-sxm-80gb"), 16),), answers.tables().nodes)
    assert power is not None
    assert (power.value, power.how) == (20_400, "node")


def test_other_numbers_of_cards_are_priced_alone_by_the_newest_price() -> None:
    known = price(("h100-sxm-80gb", 6))
    assert known == Known(value=6 * 30_000, how="cards", date="2026-06")
    mixed = price(("rtx-4090-24gb", 2), ("rtx-3090-24gb", 1))
    assert mixed == Known(value=2 * 2500 + 850, how="cards", date="2026-02")
    power = power_of(Build(), ((gpu("rtx-4090-24gb"), 2),), answers.tables().nodes)
    assert power == Known(value=900, how="cards")


def test_two_dies_are_one_card_to_buy() -> None:
    known = price(("mi250x-128gb", 8))
    assert known is not None
    assert known.value == 4 * 14_500


def test_one_card_without_a_price_leaves_the_whole_unknown() -> None:
    assert price(("rtx-4090-24gb", 1), ("l4-24gb", 1)) is None
    assert power_of(Build(), ((Gpu(id="mine", name="mine"), 1),), ()) is None


def test_what_is_typed_wins_even_zero() -> None:
    assert price(("h100-sxm-80gb", 8), typed=0.0) == Known(value=0.0, how="typed")


def test_the_rent_is_the_cheapest_on_demand_of_the_last_year() -> None:
    listed = quotes(answers.tables().offers)
    found = rent_of(Build(), ((gpu("h100-sxm-80gb"), 4),), listed, TODAY)
    assert found is not None
    fitting = [
        quote.usd_per_gpu_hour
        for quote in listed
        if quote.gpu_id == "h100-sxm-80gb"
        and quote.kind.value == "on_demand"
        and (quote.cards or 0) >= 1
        and (age := quote.age(TODAY)) is not None
        and age.value != "older"
    ]
    assert found.value == pytest.approx(4 * min(each for each in fitting if each is not None))
    assert rent_of(Build(), ((Gpu(id="mine", name="mine"), 1),), listed, TODAY) is None


def test_rows_of_a_described_card_carry_the_description() -> None:
    card = {"memory_gib": 288}
    document = {"hardware": {"devices": [{"gpu": "mine", "count": 2, "card": card}]}}
    assert device_rows(Build(gpu_id="mine", count=4), document, {"mine": card}) == [
        {"gpu": "mine", "count": 4, "card": card}
    ]
    assert device_rows(Build(gpu_id=OPEN), document, {}) == document["hardware"]["devices"]


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (Build(), None),
        (Build(gpu_id="l4-24gb", count=2), None),
        (Build(gpu_id="l4-24gb", count=None), "count"),
        (Build(gpu_id="l4-24gb", count=0), "count"),
        (Build(gpu_id="gone"), "card"),
        (Build(price=-1), "price"),
        (Build(rent_per_hour=float("nan")), "rent_per_hour"),
        (Build(power_w=float("inf")), "power_w"),
    ],
)
def test_what_cannot_be_is_named(build: Build, problem: str | None) -> None:
    assert problem_of(build, ["l4-24gb"]) == problem
