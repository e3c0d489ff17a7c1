"""The Compare page, undo and the unit of sizes as a person meets them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.opening import WAIT_MS, headline, query_of, wait_for_another, wait_for_title
from ui.document import put
from ui.examples import default_document

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.opening import OpenPage

pytestmark = pytest.mark.browser

BARS = ".st-key-compare_bars .barlayer path"


def enter(page: Page, label: str, value: str) -> None:
    before = headline(page)
    field = page.get_by_label(label, exact=True)
    field.fill(value)
    field.press("Enter")
    wait_for_another(page, before)


def test_a_shared_link_opened_elsewhere_shows_the_same(open_page: OpenPage) -> None:
    first = open_page().page
    enter(first, "Sequence", "8192")
    first.wait_for_function("location.search.includes('s=')", timeout=WAIT_MS)
    other = open_page(query=urlsplit(first.url).path.lstrip("/") + "?" + urlsplit(first.url).query).page
    expect(other.locator("h1.v")).to_have_text(headline(first))
    expect(other.get_by_label("Sequence", exact=True)).to_have_value("8192")


def test_three_scenarios_stand_side_by_side(open_page: OpenPage) -> None:
    opened = open_page(query="compare")
    page = opened.page
    expect(page.locator(BARS).nth(10)).to_be_attached()
    expect(page.locator(".st-key-compare_strip .tag")).to_have_count(3)
    expect(page.locator('.tw[aria-label="Differences"] tbody tr').nth(5)).to_be_attached()
    assert opened.hosts() == {"127.0.0.1"}
    assert opened.errors() == []


def test_keep_edit_compare_and_undo(open_page: OpenPage) -> None:
    page = open_page(query="compare").page
    before = headline(page)
    page.get_by_role("button", name="Keep as B").click()
    wait_for_another(page, before)
    enter(page, "Micro-batch", "4")
    wait_for_title(page, "B saves")
    edited = headline(page)
    undo = page.get_by_role("button", name="Undo")
    undo.focus()
    page.keyboard.press("Enter")
    wait_for_another(page, edited)
    expect(page.get_by_label("Micro-batch", exact=True)).to_have_value("1")
    wait_for_title(page, "B needs as much")


def test_a_saved_scenario_is_there_in_another_browser(open_page: OpenPage) -> None:
    page = open_page(query="compare" + query_of(put(default_document(), "training.micro_batch", 3))).page
    page.get_by_label("Save the open scenario as").fill("from <b>here</b>")
    page.get_by_label("Save the open scenario as").press("Enter")
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator('[class*="st-key-savedrow"]').first.wait_for(timeout=WAIT_MS)
    other = open_page(query="compare").page
    row = other.locator('[class*="st-key-savedrow"]').filter(has_text="from <b>here</b>").first
    before = headline(other)
    row.get_by_role("button", name="Open").click()
    wait_for_another(other, before)
    expect(other.get_by_label("Micro-batch", exact=True)).to_have_value("3")


def test_sizes_in_gb_reach_the_axis_and_the_words(open_page: OpenPage) -> None:
    page = open_page(query="compare").page
    before = headline(page)
    assert " GiB" in before
    page.get_by_role("radio", name="GB", exact=True).or_(
        page.get_by_role("button", name="GB", exact=True)
    ).first.click()
    wait_for_another(page, before)
    expect(page.locator("h1.v")).to_contain_text(" GB")
    expect(page.locator('[data-testid="stMain"]')).not_to_contain_text("GiB", use_inner_text=True)
