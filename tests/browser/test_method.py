"""The Method page as a person meets it: every tab and folded table, in both themes and at three widths."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.browser import colors
from tests.browser.conftest import SETTLED, WAIT_MS, settle
from ui.method.published import published
from ui.words import words_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

    from tests.browser.conftest import Opened

    OpenPage = Callable[..., Opened]

pytestmark = pytest.mark.browser

TABS = ("accuracy", "formulas", "verified", "data", "gaps")
STREAMLIT_PROBES = ("/_stcore/health", "/_stcore/host-config")
FOLDED = '[class*="st-key-method_"] summary'
SIGN = {
    "accuracy": ".st-key-fits table",
    "formulas": ".st-key-formulas_weights table",
    "verified": ".st-key-verified table",
    "data": ".st-key-data table",
    "gaps": ".st-key-refused",
}
"""What a tab shows when it is drawn."""


def tabs(page: Page) -> Iterator[str]:
    """Open one tab after the other, with everything that is folded in it."""
    words = words_for("en")
    for tab in TABS:
        page.get_by_role("tab", name=words(f"method.tab.{tab}"), exact=True).click()
        page.wait_for_selector(SIGN[tab], timeout=WAIT_MS)
        page.wait_for_selector(SETTLED, timeout=WAIT_MS)
        for position, box in enumerate(page.locator(FOLDED).all(), start=1):
            box.click()
            page.wait_for_function(
                "([selector, n]) => [...document.querySelectorAll(selector)].filter("
                "one => one.closest('details').querySelector('table')).length >= n",
                arg=[FOLDED, position],
                timeout=WAIT_MS,
            )
        yield tab


def weak_texts(page: Page) -> list[tuple[float, str]]:
    """Texts that do not stand out from what is behind them."""
    texts = page.evaluate(colors.TEXTS)
    assert len(texts) > 60
    ratios = [(colors.contrast(text["color"], text["behind"]), text["text"][:40]) for text in texts]
    return [(round(ratio, 2), text) for ratio, text in ratios if ratio < colors.LEAST_CONTRAST]


@pytest.mark.parametrize(
    ("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "light"), (1024, "dark")]
)
def test_every_tab_is_legible_fits_the_width_and_asks_no_other_machine(
    open_page: OpenPage, width: int, scheme: str
) -> None:
    opened = open_page(width=width, scheme=scheme, query="method")
    page = opened.page
    for tab in tabs(page):
        assert weak_texts(page) == [], tab
        assert page.evaluate("document.documentElement.scrollWidth") <= width, tab
        main = page.eval_on_selector('[data-testid="stMain"]', "box => [box.scrollWidth, box.clientWidth]")
        assert main[0] <= main[1], tab
    hosts = {urlsplit(url).hostname for url in opened.requests if not url.startswith(("data:", "blob:"))}
    assert hosts == {"127.0.0.1"}
    assert [text for text in opened.complaints if not text.endswith(STREAMLIT_PROBES)] == []


def test_a_theme_switch_leaves_no_stale_colour(open_page: OpenPage) -> None:
    page = open_page(scheme="light", query="method").page
    assert colors.as_browser("text", dark=False) in set(page.evaluate(colors.FIGURE_COLORS))
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "want => getComputedStyle(document.querySelector('h1.v')).color === want",
        arg=colors.as_browser("text", dark=True),
        timeout=WAIT_MS,
    )
    dark = set(page.evaluate(colors.FIGURE_COLORS))
    assert colors.as_browser("text", dark=True) in dark
    assert dark & colors.only_light() == set()


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
    assert "8,192" in page.inner_text(".st-key-formulas_activations table")


def test_the_page_can_be_opened_from_another(open_page: OpenPage) -> None:
    page = open_page().page
    page.get_by_role("link", name="Method", exact=True).click()
    page.wait_for_selector(".st-key-method_tabs", timeout=WAIT_MS)
    settle(page)
    assert page.inner_text("h1.v").startswith("Half of ")
