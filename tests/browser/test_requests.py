"""The Requests section in Chromium: opened, read on a phone and in the dark, a field changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser import colors
from tests.browser.conftest import WAIT_MS, settle
from tests.browser.test_plan import query_of
from ui.document import put_all
from ui.examples import story_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.browser.conftest import Opened

    OpenPage = Callable[..., Opened]

pytestmark = pytest.mark.browser

TOPICS = ("At once", "Lengths", "Sharing", "Prefill", "Queue", "Tiers", "Answer cache", "Replicas")


def opened(open_page: OpenPage, *, width: int = 1440, scheme: str = "light") -> Page:
    """The serving story with the section open."""
    asked = put_all(story_document("llama-70b-awq-two-l40s"), {"workload.requests_per_s": 4.0})
    page = open_page(width=width, scheme=scheme, query=query_of(asked)).page
    page.get_by_text("Requests: lengths").click()
    page.get_by_role("radio", name="Lengths", exact=True).wait_for(timeout=WAIT_MS)
    return page


def choose(page: Page, topic: str) -> None:
    """Go to a topic and wait for it."""
    page.get_by_role("radio", name=topic, exact=True).click()
    settle(page)


def test_topics_and_a_field_on_a_phone(open_page: OpenPage) -> None:
    page = opened(open_page, width=390)
    for topic in TOPICS:
        choose(page, topic)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    field = page.get_by_label("A replica carries (requests/s)")
    field.fill("0.8")
    field.press("Enter")
    page.locator(".st-key-requests_replicas .main-svg").first.wait_for(timeout=WAIT_MS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(open_page: OpenPage, scheme: str) -> None:
    page = opened(open_page, scheme=scheme)
    choose(page, "Lengths")
    page.get_by_text("Start it: flags").click()
    settle(page)
    weak = [
        (round(ratio, 2), text["text"][:40], text["color"], text["behind"])
        for text in page.evaluate(colors.TEXTS)
        if (ratio := colors.contrast(text["color"], text["behind"])) < colors.LEAST_CONTRAST
    ]
    assert weak == []


def test_a_field_of_the_scenario_gets_into_the_link(open_page: OpenPage) -> None:
    page = opened(open_page)
    choose(page, "Lengths")
    before = page.evaluate("location.search")
    field = page.get_by_label("Mean tokens")
    field.fill("3000")
    field.press("Enter")
    page.wait_for_function("old => location.search !== old", arg=before, timeout=WAIT_MS)
    settle(page)
    assert page.get_by_role("radio", name="Lengths", exact=True).get_attribute("aria-checked") == "true"
    assert page.get_by_label("Mean tokens").input_value() == "3000"
