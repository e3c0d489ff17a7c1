"""The Requests section in Chromium: opened, read on a phone, a field changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser import checks
from tests.browser.opening import WAIT_MS, query_of, settle
from tests.browser.visits import REQUESTS, open_requests

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser import checks
from tests.browser.opening import OpenPage

pytestmark = pytest.mark.browser

TOPICS = ("At once", "Lengths", "Sharing", "Prefill", "Queue", "Tiers", "Answer cache", "Replicas")


def opened(open_page: OpenPage, *, width: int = 1440) -> Page:
    """The serving story with the section open."""
    page = open_page(width=width, query=query_of(REQUESTS)).page
    open_requests(page)
    return page


def choose(page: Page, topic: str) -> None:
    """Go to a topic and wait for it."""
    page.get_by_role("radio", name=topic, exact=True).click()
    settle(page)


def test_topics_and_a_field_on_a_phone(open_page: OpenPage) -> None:
    page = opened(open_page, width=390)
    for topic in TOPICS:
        choose(page, topic)
        assert checks.sideways(page, 390, topic) == []
    field = page.get_by_label("A replica carries (requests/s)")
    field.fill("0.8")
    field.press("Enter")
    page.locator(".st-key-requests_replicas .main-svg").first.wait_for(timeout=WAIT_MS)


def test_a_field_of_the_scenario_gets_into_the_link(open_page: OpenPage) -> None:
    page = opened(open_page)
    choose(page, "Lengths")
    before = page.evaluate("location.search")
    field = page.get_by_label("Mean tokens")
    field.fill("3000")
    field.press("Enter")
    page.wait_for_function("old => location.search !== old", arg=before, timeout=WAIT_MS)
    settle(page)
    expect(page.get_by_role("radio", name="Lengths", exact=True)).to_have_attribute("aria-checked", "true")
    expect(page.get_by_label("Mean tokens")).to_have_value("3000")
