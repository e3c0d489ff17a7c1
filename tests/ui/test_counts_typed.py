"""A count as somebody types it: whole or not, in digits or with an exponent, is what the planner is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.ui.conftest import checked, html
from ui import whole
from ui.buy.builds import Build, problem_of
from ui.cost.own import OwnPrice
from ui.cost.own import problem_of as problem_of_price
from ui.document import get

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("training.micro_batch", "3.7 given; allowed: whole number 1–1,000,000"),
        ("hardware.devices.0.count", "3.7 given; allowed: whole number 1–100,000"),
    ],
)
def test_a_part_of_a_count_is_refused_at_its_field_and_stays_there(
    open_page: Callable[..., AppTest], path: str, message: str
) -> None:
    page = open_page()
    checked(page.number_input(key=path).set_value(3.7).run())
    assert get(page.session_state["scenario_document"], path) == 3.7
    assert page.number_input(key=path).value == 3.7
    assert message in html(page)
    checked(page.number_input(key=path).set_value(3.0).run())
    kept = get(page.session_state["scenario_document"], path)
    assert (kept, type(kept)) == (3, int)
    assert "given; allowed" not in html(page)


def test_the_field_takes_an_exponent() -> None:
    """Streamlit's browser part cuts a field of whole numbers at the first letter: 1e3 would be 1."""
    assert whole.FORMAT == "%g"
    assert isinstance(whole.shown(4096), float)


@pytest.mark.parametrize(
    ("given", "expected"), [(1000.0, 1000), (3.7, 3.7), (-2.0, -2), (1e300, 1e300), (None, None)]
)
def test_what_is_whole_is_an_int(given: float | None, expected: float | None) -> None:
    found = whole.typed(given)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize("given", ["8", True, None, [], {}])
def test_what_is_no_number_is_not_shown(given: Any) -> None:
    assert whole.shown(given) is None


def test_a_number_too_large_for_the_field_is_cut() -> None:
    assert whole.shown(10**400) == 1e300


def test_builds_and_own_prices_name_a_count_that_is_not_whole() -> None:
    half: Any = 2.5
    assert problem_of(Build(gpu_id="h100-sxm-80gb", count=half), ["h100-sxm-80gb"]) == "count"
    assert problem_of_price(OwnPrice(gpu_id="h100-sxm-80gb", cards=half, per_hour=1.0), []) == "cards"
