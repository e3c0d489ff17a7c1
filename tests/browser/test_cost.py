"""The Cost page as a person meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.opening import WAIT_MS, query_of, settle, wait_for_title
from ui.examples import STORIES, story_document
from ui.tasks import with_task

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.opening import OpenPage

pytestmark = pytest.mark.browser

LIST = '[data-testid="stDataFrame"] canvas'
FIRST_COLUMN = """() => [...document.querySelectorAll(
    '[data-testid="stDataFrame"] [role=gridcell][aria-colindex="1"]'
)].map(cell => Number(cell.textContent))"""
HEAD_HEIGHT = 16


def prices(page: Page) -> list[float]:
    """The first column of the list as the browser shows it, top to bottom."""
    page.wait_for_selector(LIST, timeout=WAIT_MS)
    page.wait_for_function(f"({FIRST_COLUMN})().length > 1", timeout=WAIT_MS)
    found: list[float] = page.evaluate(FIRST_COLUMN)
    return found


def click_first_head(page: Page) -> None:
    box = page.locator(LIST).first.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 30, box["y"] + HEAD_HEIGHT)


def test_the_list_sorts_by_price(open_page: OpenPage) -> None:
    page = open_page(query="cost").page
    cheapest_first = prices(page)
    assert cheapest_first == sorted(cheapest_first)
    page.locator(LIST).first.scroll_into_view_if_needed()
    click_first_head(page)
    click_first_head(page)
    page.wait_for_function(f"old => ({FIRST_COLUMN})()[0] > old", arg=cheapest_first[0], timeout=WAIT_MS)
    dearest_first = prices(page)
    assert dearest_first == sorted(dearest_first, reverse=True)
    assert dearest_first[0] >= cheapest_first[-1]


def test_another_kind_of_price_has_another_cheapest(open_page: OpenPage) -> None:
    page = open_page(query="cost").page
    before = page.inner_text("h1.v")
    page.get_by_role("radio", name="Spot").or_(page.get_by_text("Spot", exact=True)).first.click()
    page.wait_for_function(
        "old => document.querySelector('h1.v').innerText !== old", arg=before, timeout=WAIT_MS
    )
    settle(page)
    wait_for_title(page, "Cheapest hour that fits: $")
    expect(page.get_by_text("Spot:")).to_have_count(1)


def test_the_question_stays_from_page_to_page(open_page: OpenPage) -> None:
    document = with_task(story_document(STORIES[0]), "lora", {})
    page = open_page(query=query_of(document)).page
    sentence, link = page.inner_text(".scn"), page.evaluate("location.search")
    for name in ("Cost", "Plan", "Cost"):
        page.get_by_role("link", name=name, exact=True).click()
        page.wait_for_function("name => location.pathname.includes(name)", arg=path_of(name), timeout=WAIT_MS)
        page.wait_for_function("old => location.search === old", arg=link, timeout=WAIT_MS)
        settle(page)
        expect(page.locator(".scn")).to_have_text(sentence, use_inner_text=True)
    expect(page.get_by_label("Rank", exact=True)).to_have_value("16")


def path_of(name: str) -> str:
    """The Plan page is the first one, whose path is empty."""
    return "cost" if name == "Cost" else "/"
