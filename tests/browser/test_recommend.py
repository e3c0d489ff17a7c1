"""The Recommend page as a person meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser import checks
from tests.browser.opening import WAIT_MS, query_of, settle, wait_for_title
from tests.browser.visits import WISH

if TYPE_CHECKING:
    from tests.browser import checks
from tests.browser.opening import OpenPage

pytestmark = pytest.mark.browser


def test_one_click_opens_the_cheapest_plan_and_it_fits(open_page: OpenPage) -> None:
    page = open_page(query="recommend" + query_of(WISH)).page
    page.wait_for_selector(".st-key-rec_open_0 button", timeout=WAIT_MS)
    settle(page)
    wait_for_title(page, "Cheapest plan: $")
    assert checks.sideways(page, 1440, "plans") == []
    page.locator(".st-key-rec_open_0 button").click()
    page.wait_for_selector(".st-key-gpu_bars", timeout=WAIT_MS)
    settle(page)
    wait_for_title(page, "It fits")
