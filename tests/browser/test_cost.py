"""The Cost page as a person meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from planner.link import encode
from planner.validation import parse_scenario
from tests.browser import colors
from tests.browser.conftest import WAIT_MS, settle
from ui.examples import STORIES, story_document
from ui.tasks import with_task

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.browser.conftest import Opened

    OpenPage = Callable[..., Opened]

pytestmark = pytest.mark.browser

WIDTHS = (390, 1024, 1440)
STREAMLIT_PROBES = ("/_stcore/health", "/_stcore/host-config")
LIST = '[data-testid="stDataFrame"] canvas'
FIRST_COLUMN = """() => [...document.querySelectorAll(
    '[data-testid="stDataFrame"] [role=gridcell][aria-colindex="1"]'
)].map(cell => Number(cell.textContent))"""
HEAD_HEIGHT = 16


def query_of(document: dict[str, object]) -> str:
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return f"cost?s={encode(scenario)}"


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
    assert page.inner_text("h1.v").startswith("Cheapest hour that fits: $")
    assert page.get_by_text("Spot:").count() == 1


def test_the_question_stays_from_page_to_page(open_page: OpenPage) -> None:
    document = with_task(story_document(STORIES[0]), "lora", {})
    page = open_page(query=query_of(document).removeprefix("cost")).page
    sentence, link = page.inner_text(".scn"), page.evaluate("location.search")
    for name in ("Cost", "Plan", "Cost"):
        page.get_by_role("link", name=name, exact=True).click()
        page.wait_for_function("name => location.pathname.includes(name)", arg=path_of(name), timeout=WAIT_MS)
        page.wait_for_function("old => location.search === old", arg=link, timeout=WAIT_MS)
        settle(page)
        assert page.inner_text(".scn") == sentence
    assert page.get_by_label("Rank", exact=True).input_value() == "16"


def path_of(name: str) -> str:
    """The Plan page is the first one, whose path is empty."""
    return "cost" if name == "Cost" else "/"


def test_nothing_is_asked_of_any_other_machine(open_page: OpenPage) -> None:
    opened = open_page(query="cost")
    prices(opened.page)
    hosts = {urlsplit(url).hostname for url in opened.requests if not url.startswith(("data:", "blob:"))}
    assert hosts == {"127.0.0.1"}


def test_the_console_is_clean(open_page: OpenPage) -> None:
    opened = open_page(query="cost")
    prices(opened.page)
    assert [text for text in opened.complaints if not text.endswith(STREAMLIT_PROBES)] == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("story", [STORIES[0], STORIES[3]])
def test_no_sideways_scroll(open_page: OpenPage, width: int, story: str) -> None:
    page = open_page(width=width, query=query_of(story_document(story))).page
    prices(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    main = page.eval_on_selector('[data-testid="stMain"]', "box => [box.scrollWidth, box.clientWidth]")
    assert main[0] <= main[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(open_page: OpenPage, scheme: str) -> None:
    page = open_page(scheme=scheme, query="cost").page
    page.get_by_text("My prices", exact=True).last.click()
    page.get_by_text("+ A price").click()
    page.get_by_text("Price 1: no price yet.").wait_for(timeout=WAIT_MS)
    settle(page)
    texts = page.evaluate(colors.TEXTS)
    assert len(texts) > 100
    weak = [
        (round(ratio, 2), text["text"][:40], text["color"], text["behind"])
        for text in texts
        if (ratio := colors.contrast(text["color"], text["behind"])) < colors.LEAST_CONTRAST
    ]
    assert weak == []


def test_a_theme_switch_leaves_no_stale_colour(open_page: OpenPage) -> None:
    page = open_page(scheme="light", query="cost").page
    assert colors.as_browser("accent", dark=False) in set(page.evaluate(colors.FIGURE_COLORS))
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "want => getComputedStyle(document.querySelector('h1.v')).color === want",
        arg=colors.as_browser("text", dark=True),
        timeout=WAIT_MS,
    )
    dark = set(page.evaluate(colors.FIGURE_COLORS))
    assert colors.as_browser("accent", dark=True) in dark
    assert dark & colors.only_light() == set()
