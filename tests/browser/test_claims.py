"""The Claims page as a person meets it, on a narrow dark screen: every topic opens, nothing runs sideways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser import colors
from tests.browser.conftest import settle
from ui.claims.listing import TOPICS
from ui.words import words_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import Opened

    OpenPage = Callable[..., Opened]

pytestmark = pytest.mark.browser


def test_every_topic_opens_on_a_narrow_screen(open_page: OpenPage) -> None:
    page = open_page(width=390, scheme="dark", query="claims").page
    words = words_for("en")
    for topic in TOPICS:
        page.get_by_role("tab", name=words(f"claims.tab.{topic}"), exact=True).click()
        settle(page)
        first = page.locator(f".st-key-claim_{TOPICS[topic][0]} .claim")
        first.wait_for()
        main = page.eval_on_selector('[data-testid="stMain"]', "box => [box.scrollWidth, box.clientWidth]")
        assert main[0] <= main[1], topic
    texts = page.evaluate(colors.TEXTS)
    weak = [
        (round(ratio, 2), text["text"][:40])
        for text in texts
        if (ratio := colors.contrast(text["color"], text["behind"])) < colors.LEAST_CONTRAST
    ]
    assert weak == []
