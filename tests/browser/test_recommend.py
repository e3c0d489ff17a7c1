"""The Recommend page as a person meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner.link import encode
from planner.validation import parse_scenario
from tests.browser.conftest import WAIT_MS, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import Opened

    OpenPage = Callable[..., Opened]

pytestmark = pytest.mark.browser

QUESTION = {
    "version": 1,
    "task": "full",
    "model": {"id": "meta-llama/Llama-3.1-8B"},
    "hardware": {"devices": [{"gpu": "l4-24gb", "count": 1}]},
    "runtime": {"name": "torchtitan"},
    "training": {"sequence_length": 4096},
}


def test_one_click_opens_the_cheapest_plan_and_it_fits(open_page: OpenPage) -> None:
    scenario, issues = parse_scenario(QUESTION)
    assert scenario is not None, issues
    page = open_page(query=f"recommend?s={encode(scenario)}").page
    page.wait_for_selector(".st-key-rec_open_0 button", timeout=WAIT_MS)
    settle(page)
    assert page.inner_text("h1.v").startswith("Cheapest plan: $")
    assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("window.innerWidth")
    page.locator(".st-key-rec_open_0 button").click()
    page.wait_for_selector(".st-key-gpu_bars", timeout=WAIT_MS)
    settle(page)
    assert page.inner_text("h1.v").startswith("It fits")
