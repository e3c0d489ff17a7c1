"""The Plan page as a person meets it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from planner.link import encode
from planner.validation import parse_scenario
from tests.browser import colors
from tests.browser.conftest import WAIT_MS, settle
from ui.document import put
from ui.examples import STORIES, default_document, story_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.browser.conftest import Opened

    OpenPage = Callable[..., Opened]

pytestmark = pytest.mark.browser

WIDTHS = (390, 1024, 1440)
STREAMLIT_PROBES = ("/_stcore/health", "/_stcore/host-config")
BARS = ".st-key-gpu_bars .barlayer path"


def bar_shapes(page: Page) -> list[str]:
    """Outline of every piece of the bars."""
    shapes: list[str] = page.eval_on_selector_all(BARS, "paths => paths.map(path => path.getAttribute('d'))")
    return shapes


def query_of(document: dict[str, object]) -> str:
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return f"?s={encode(scenario)}"


def test_an_edit_moves_the_bars_and_the_address(open_page: OpenPage) -> None:
    page = open_page().page
    before, verdict = bar_shapes(page), page.inner_text("h1.v")
    field = page.get_by_label("Sequence", exact=True)
    field.fill("8192")
    field.press("Enter")
    page.wait_for_function(
        "old => document.querySelector('h1.v').innerText !== old", arg=verdict, timeout=WAIT_MS
    )
    settle(page)
    page.wait_for_function(
        "([selector, old]) => [...document.querySelectorAll(selector)].map(p => p.getAttribute('d')).join() !== old",
        arg=[BARS, ",".join(before)],
        timeout=WAIT_MS,
    )
    assert "s=" in page.evaluate("location.search")


def test_a_long_context_is_read_whole(open_page: OpenPage) -> None:
    served = {
        "version": 1,
        "task": "serve",
        "model": {"id": "meta-llama/Llama-3.1-70B"},
        "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 4}]},
        "runtime": {"name": "vllm"},
        "serving": {"max_model_len": 131072},
    }
    field = open_page(query=query_of(served)).page.get_by_label("Context", exact=True).first
    assert field.input_value() == "131072"
    assert field.evaluate("box => box.scrollWidth <= box.clientWidth")


def test_nothing_is_asked_of_any_other_machine(open_page: OpenPage) -> None:
    opened = open_page()
    opened.page.locator(".st-key-share button").first.click()
    opened.page.get_by_text("Working:").click()
    hosts = {urlsplit(url).hostname for url in opened.requests if not url.startswith(("data:", "blob:"))}
    assert hosts == {"127.0.0.1"}


def test_the_console_is_clean(open_page: OpenPage) -> None:
    opened = open_page()
    assert [text for text in opened.complaints if not text.endswith(STREAMLIT_PROBES)] == []


@pytest.mark.parametrize("story", [STORIES[0], STORIES[3]])
def test_no_sideways_scroll(open_page: OpenPage, story: str) -> None:
    page = open_page(width=WIDTHS[0], query=query_of(story_document(story))).page
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 1000})
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        main = page.eval_on_selector('[data-testid="stMain"]', "box => [box.scrollWidth, box.clientWidth]")
        assert main[0] <= main[1], width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("story", [STORIES[0], STORIES[3]])
def test_text_stands_out_from_what_is_behind_it(open_page: OpenPage, scheme: str, story: str) -> None:
    page = open_page(scheme=scheme, query=query_of(story_document(story))).page
    texts = page.evaluate(colors.TEXTS)
    assert len(texts) > 100
    weak = [
        (round(ratio, 2), text["text"][:40], text["color"], text["behind"])
        for text in texts
        if (ratio := colors.contrast(text["color"], text["behind"])) < colors.LEAST_CONTRAST
    ]
    assert weak == []


def test_a_theme_switch_leaves_no_stale_colour(open_page: OpenPage) -> None:
    page = open_page(scheme="light").page
    light = set(page.evaluate(colors.FIGURE_COLORS))
    assert colors.as_browser("text", dark=False) in light
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "want => getComputedStyle(document.querySelector('h1.v')).color === want",
        arg=colors.as_browser("text", dark=True),
        timeout=WAIT_MS,
    )
    dark = set(page.evaluate(colors.FIGURE_COLORS))
    assert colors.as_browser("text", dark=True) in dark
    assert dark & colors.only_light() == set()


def test_what_a_user_wrote_never_runs(open_page: OpenPage) -> None:
    evil = "<img src=x onerror=window.taken=1>"
    page = open_page().page
    document = put(default_document(), "model", {"id": evil})
    page.goto(page.url.partition("?")[0] + query_of(document))
    page.get_by_text(evil).first.wait_for(timeout=WAIT_MS)
    assert page.evaluate("window.taken") is None
    assert page.locator("img[src=x]").count() == 0


def test_an_error_keeps_the_chart_and_says_so(open_page: OpenPage) -> None:
    page = open_page().page
    before = bar_shapes(page)
    field = page.get_by_label("Count", exact=True)
    field.fill("0")
    field.press("Enter")
    page.get_by_role("alert").first.wait_for(timeout=WAIT_MS)
    settle(page)
    assert page.locator(".st-key-stale").count() == 1
    assert bar_shapes(page) == before


def test_every_apply_button_names_its_change(open_page: OpenPage) -> None:
    page = open_page().page
    names = [button.inner_text().split() for button in page.locator('[class*="st-key-apply_"] button').all()]
    assert len(names) >= 3
    assert all(name[0] == "Apply" and len(name) > 1 for name in names)
    assert len({tuple(name) for name in names}) == len(names)


def test_every_figure_is_told_in_words(open_page: OpenPage) -> None:
    page = open_page().page
    assert page.locator('[data-testid="stPlotlyChart"]').count() == 1
    label = page.evaluate(
        """() => { const chart = document.querySelector('[data-testid="stPlotlyChart"]');
        return (chart.closest('[aria-label]') || chart.querySelector('[aria-label]') || chart)
            .getAttribute('aria-label'); }"""
    )
    assert "GPU 5 needs" in label
    panels = page.get_by_role("img", name="by phase")
    assert panels.count() == 6
    assert all(panel.get_attribute("aria-label") for panel in panels.all())


def test_the_fit_map_is_a_table_with_this_plan_marked(open_page: OpenPage) -> None:
    page = open_page().page
    table = page.get_by_role("table", name="Fit map")
    assert table.get_by_role("columnheader").count() == 5
    assert table.get_by_role("rowheader").count() == 4
    assert table.locator("[aria-current]").count() == 1


@pytest.mark.parametrize(("width", "columns"), [(1440, 6), (1024, 4), (390, 2)])
def test_panels_stand_in_as_many_columns_as_there_is_room(
    open_page: OpenPage, width: int, columns: int
) -> None:
    page = open_page(width=width).page
    lefts = page.eval_on_selector_all(".step", "steps => steps.map(s => s.getBoundingClientRect().left)")
    assert len(set(map(round, lefts))) == columns
    boxes = page.eval_on_selector_all(
        ".step .plot i", "areas => areas.map(a => [a.offsetWidth, getComputedStyle(a).backgroundColor])"
    )
    assert all(wide > 0 and color != "rgba(0, 0, 0, 0)" for wide, color in boxes)


def test_a_phone_shows_the_verdict_first(open_page: OpenPage) -> None:
    page = open_page(width=390).page
    box = page.locator("h1.v").bounding_box()
    assert box is not None
    assert box["y"] < 300
    assert box["x"] >= 0


def test_the_keyboard_reaches_the_changes_and_shows_where_it_is(open_page: OpenPage) -> None:
    page = open_page().page
    page.locator('[class*="st-key-apply_0"] button').focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    ring = page.evaluate(
        """() => { const s = getComputedStyle(document.activeElement);
        return [document.activeElement.innerText, s.outlineStyle + s.boxShadow]; }"""
    )
    assert ring[0].startswith("Apply")
    assert ring[1] != "nonenone"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_server_never_loads_torch(open_page: OpenPage, page_url: str) -> None:
    open_page(query=query_of(story_document(STORIES[3])))
    port = str(urlsplit(page_url).port)
    servers = [
        path.parent
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if b"streamlit" in (line := _read(path)) and port.encode() in line
    ]
    assert servers
    for server in servers:
        mapped = _read(server / "maps").decode(errors="replace")
        assert "libtorch" not in mapped
        assert "tokenizers" not in mapped


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
