"""The user's own prices: what makes one, and what is said of what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ui import answers
from ui.cost.own import OwnPrice, own_quote, problem_of
from ui.cost.quotes import Kind

if TYPE_CHECKING:
    from planner.hardware import Tables


def test_an_own_price_is_a_kind_of_its_own() -> None:
    tables = answers.tables()
    own = OwnPrice(name="cellar", gpu_id="rtx-4090-24gb", cards=4, per_hour=1.5)
    made = own_quote(own, tables.offers, tables.gpus)
    assert made is not None
    assert (made.kind, made.cards, made.usd_per_gpu_hour, made.date) == (Kind.OWN, 4, 0.375, None)


def test_an_instance_type_tells_card_and_count(banded: Tables) -> None:
    known = next(o for o in banded.offers if o.gpu_id and (o.gpu_count or 0) > 1)
    made = own_quote(
        OwnPrice(name=f" {known.instance_type.upper()} ", per_hour=9), banded.offers, banded.gpus
    )
    assert made is not None
    assert (made.gpu_id, made.cards) == (known.gpu_id, known.gpu_count)


@pytest.mark.parametrize(
    ("own", "problem"),
    [
        (OwnPrice(gpu_id="l4-24gb"), "no_price"),
        (OwnPrice(gpu_id="l4-24gb", per_hour=0), "price"),
        (OwnPrice(gpu_id="l4-24gb", per_hour=-1), "price"),
        (OwnPrice(gpu_id="l4-24gb", per_hour=float("inf")), "price"),
        (OwnPrice(gpu_id="l4-24gb", per_hour=float("nan")), "price"),
        (OwnPrice(name="no such type", per_hour=1), "no_card"),
        (OwnPrice(gpu_id="l4-24gb", cards=0, per_hour=1), "cards"),
        (OwnPrice(gpu_id="l4-24gb", cards=None, per_hour=1), "cards"),
        (OwnPrice(gpu_id="l4-24gb", cards=2, per_hour=1), None),
    ],
)
def test_a_price_that_cannot_be_is_said(own: OwnPrice, problem: str | None) -> None:
    tables = answers.tables()
    assert problem_of(own, tables.offers) == problem
    assert (own_quote(own, tables.offers, tables.gpus) is None) == (problem is not None)
