"""The Buy page as a person meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.opening import WAIT_MS, query_of, settle
from ui.document import put
from ui.examples import default_document

if TYPE_CHECKING:
    from tests.browser.opening import OpenPage

pytestmark = pytest.mark.browser


def test_a_described_card_goes_from_the_link_to_the_builds(open_page: OpenPage) -> None:
    card = {"memory_gib": 288, "like": "h200-sxm-141gb", "link_gb_per_s": 1800}
    rows = [{"gpu": "next card", "count": 6, "card": card}]
    page = open_page(query="buy" + query_of(put(default_document(), "hardware.devices", rows))).page
    page.get_by_text("6 × next card").first.wait_for(timeout=WAIT_MS)
    price = page.get_by_label("Price, $", exact=True)
    price.fill("150000")
    price.press("Enter")
    page.get_by_text("$150,000").first.wait_for(timeout=WAIT_MS)
    settle(page)
    expect(page.locator("body")).not_to_contain_text("A: no purchase price", use_inner_text=True)


def test_on_a_phone_every_field_of_a_build_shows_its_label(open_page: OpenPage) -> None:
    page = open_page(width=390, query="buy").page
    for label in ("Count, build B", "Price, $, build B", "Rent, $/h, build C", "Power, W, build C"):
        page.get_by_text(label, exact=True).wait_for(timeout=WAIT_MS)
