"""The Method page as a person meets it: a point is hovered, a tab stays open, the way from another page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.opening import WAIT_MS, settle, wait_for_title
from tests.browser.visits import SIGN
from ui.method.published import published

if TYPE_CHECKING:
    from tests.browser.opening import OpenPage

pytestmark = pytest.mark.browser


def test_a_point_tells_its_record_and_source(open_page: OpenPage) -> None:
    page = open_page(query="method").page
    point = page.locator(".st-key-method_training .scatterlayer .points path").last
    point.scroll_into_view_if_needed()
    point.hover(force=True)
    hover = page.locator(".st-key-method_training .hoverlayer")
    hover.locator("text").first.wait_for(timeout=WAIT_MS)
    said = hover.text_content() or ""
    assert any(record.id in said for record in published().points)
    assert "measured" in said


def test_a_tab_stays_open_while_the_question_is_edited(open_page: OpenPage) -> None:
    page = open_page(query="method").page
    page.get_by_role("tab", name="Formulas", exact=True).click()
    page.wait_for_selector(SIGN["formulas"], timeout=WAIT_MS)
    before = page.inner_text(".st-key-formulas_activations table")
    field = page.get_by_label("Sequence", exact=True)
    field.fill("8192")
    field.press("Enter")
    page.wait_for_function(
        "old => document.querySelector('.st-key-formulas_activations table').innerText !== old",
        arg=before,
        timeout=WAIT_MS,
    )
    expect(page.locator(".st-key-formulas_activations table")).to_contain_text("8,192")


def test_the_page_can_be_opened_from_another(open_page: OpenPage) -> None:
    page = open_page().page
    page.get_by_role("link", name="Method", exact=True).click()
    page.wait_for_selector(".st-key-method_tabs", timeout=WAIT_MS)
    settle(page)
    wait_for_title(page, "Half of ")
