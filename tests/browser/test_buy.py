"""The Buy page as a person meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from planner.link import encode
from planner.validation import parse_scenario
from tests.browser import colors
from tests.browser.conftest import WAIT_MS, settle
from ui.document import put
from ui.examples import default_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import Opened

    OpenPage = Callable[..., Opened]

pytestmark = pytest.mark.browser

STREAMLIT_PROBES = ("/_stcore/health", "/_stcore/host-config")


def test_a_phone_in_the_dark_shows_all_of_it_readably(open_page: OpenPage) -> None:
    opened = open_page(width=390, scheme="dark", query="buy")
    page = opened.page
    page.get_by_text("Left out: the machine around cards").wait_for(timeout=WAIT_MS)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    weak = [
        (text["text"][:40], text["color"], text["behind"])
        for text in page.evaluate(colors.TEXTS)
        if colors.contrast(text["color"], text["behind"]) < colors.LEAST_CONTRAST
    ]
    assert weak == []
    assert [text for text in opened.complaints if not text.endswith(STREAMLIT_PROBES)] == []
    hosts = {urlsplit(url).hostname for url in opened.requests if not url.startswith(("data:", "blob:"))}
    assert hosts == {"127.0.0.1"}


def test_a_described_card_goes_from_the_link_to_the_builds(open_page: OpenPage) -> None:
    card = {"memory_gib": 288, "like": "h200-sxm-141gb", "link_gb_per_s": 1800}
    rows = [{"gpu": "next card", "count": 6, "card": card}]
    scenario, issues = parse_scenario(put(default_document(), "hardware.devices", rows))
    assert scenario is not None, issues
    page = open_page(query=f"buy?s={encode(scenario)}").page
    page.get_by_text("6 × next card").first.wait_for(timeout=WAIT_MS)
    price = page.get_by_label("Price, $", exact=True)
    price.fill("150000")
    price.press("Enter")
    page.get_by_text("$150,000").first.wait_for(timeout=WAIT_MS)
    settle(page)
    assert "A: no purchase price" not in page.locator("body").inner_text()
