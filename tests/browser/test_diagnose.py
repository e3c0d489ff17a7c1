"""The Diagnose page as a person meets it: a message pasted, a log uploaded, a fix applied; light, dark, narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.opening import WAIT_MS, headline, settle, wait_for_another, wait_for_title
from tests.planner.diagnose.cases import MESSAGES

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.opening import OpenPage

pytestmark = pytest.mark.browser

OTHER = next(message["text"] for message in MESSAGES if message["tag"] == "1e")


def paste(page: Page, text: str) -> None:
    before = headline(page)
    field = page.get_by_label("Message or log")
    field.fill(text)
    field.press("Control+Enter")
    wait_for_another(page, before)


def test_a_pasted_message_is_answered(open_page: OpenPage) -> None:
    opened = open_page(query="diagnose")
    page = opened.page
    wait_for_title(page, "The fp32 logits did not fit")
    expect(page.locator(".st-key-diagnose_bars .barlayer path").nth(3)).to_be_attached()
    paste(page, OTHER)
    expect(page.locator("h1.v")).to_have_text("Somebody else is on the card")
    expect(page.locator(".fixout").nth(2)).to_be_attached()
    assert opened.hosts() == {"127.0.0.1"}
    assert opened.errors() == []


def test_a_fix_is_applied_by_its_button(open_page: OpenPage) -> None:
    page = open_page(query="diagnose").page
    page.get_by_role("button", name="AdamW").click()
    page.wait_for_function("location.search.includes('s=')", timeout=WAIT_MS)
    settle(page)
    expect(page.get_by_role("button", name="AdamW")).to_have_count(0)


def test_a_log_is_uploaded(open_page: OpenPage) -> None:
    page = open_page(query="diagnose").page
    before = headline(page)
    page.get_by_text("Upload a log file").click()
    log = ("step 1 loss 2.0\n" * 50_000 + OTHER).encode()
    page.locator('input[type="file"]').last.set_input_files(
        {"name": "train.log", "mimeType": "text/plain", "buffer": log}
    )
    wait_for_another(page, before)
    expect(page.locator("h1.v")).to_have_text("Somebody else is on the card")
    for said in ("train.log", "line 50,001"):
        expect(page.locator('[data-testid="stMain"]')).to_contain_text(said)


def test_the_message_is_still_there_after_another_page(open_page: OpenPage) -> None:
    page = open_page(query="diagnose").page
    paste(page, OTHER)
    before = headline(page)
    page.get_by_role("link", name="Plan", exact=True).first.click()
    wait_for_another(page, before)
    before = headline(page)
    page.get_by_role("link", name="Diagnose", exact=True).first.click()
    wait_for_another(page, before)
    expect(page.locator("h1.v")).to_have_text("Somebody else is on the card")
