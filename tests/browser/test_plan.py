"""The Plan page as a person meets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.opening import WAIT_MS, query_of, settle, settle_words
from ui.document import put
from ui.examples import default_document

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.opening import OpenPage

pytestmark = pytest.mark.browser

BARS = ".st-key-gpu_bars .barlayer path"


def bar_shapes(page: Page) -> list[str]:
    """Outline of every piece of the bars."""
    shapes: list[str] = page.eval_on_selector_all(BARS, "paths => paths.map(path => path.getAttribute('d'))")
    return shapes


@pytest.fixture(scope="module")
def opened_once(open_for_all: OpenPage) -> Page:
    """The default question, for tests that change nothing."""
    return open_for_all().page


@pytest.fixture
def page(opened_once: Page) -> Page:
    """The default question on a wide screen."""
    opened_once.set_viewport_size({"width": 1440, "height": 1000})
    return opened_once


def test_an_edit_moves_the_bars_and_the_address_and_asks_no_other_machine(open_page: OpenPage) -> None:
    opened = open_page(query="plan")  # the page's own name, as other pages have theirs; the rest use the root
    page = opened.page
    expect(page.locator("[aria-current=page]")).to_have_text("Plan")
    expect(page.get_by_role("dialog")).to_have_count(0)
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
    page.wait_for_function("location.pathname === '/plan' && location.search.includes('s=')", timeout=WAIT_MS)
    page.locator(".st-key-share button").first.click()
    page.get_by_text("Working:").click()
    assert opened.hosts() == {"127.0.0.1"}


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
    expect(field).to_have_value("131072")
    assert field.evaluate("box => box.scrollWidth <= box.clientWidth")


def test_what_a_user_wrote_never_runs(open_page: OpenPage) -> None:
    evil = "<img src=x onerror=window.taken=1>"
    document = put(default_document(), "model", {"id": evil})
    page = open_page(query=query_of(document), wait=settle_words).page
    page.get_by_text(evil).first.wait_for(timeout=WAIT_MS)
    assert page.evaluate("window.taken") is None
    expect(page.locator("img[src=x]")).to_have_count(0)


def test_an_error_keeps_the_chart_and_says_so(open_page: OpenPage) -> None:
    page = open_page().page
    before = bar_shapes(page)
    field = page.get_by_label("Count", exact=True)
    field.fill("0")
    field.press("Enter")
    page.get_by_role("alert").first.wait_for(timeout=WAIT_MS)
    settle(page)
    expect(page.locator(".st-key-stale")).to_have_count(1)
    assert bar_shapes(page) == before


def test_every_apply_button_names_its_change(page: Page) -> None:
    names = [button.inner_text().split() for button in page.locator('[class*="st-key-apply_"] button').all()]
    assert len(names) >= 3
    assert all(name[0] == "Apply" and len(name) > 1 for name in names)
    assert len({tuple(name) for name in names}) == len(names)


def test_every_figure_is_told_in_words(page: Page) -> None:
    expect(page.locator('[data-testid="stPlotlyChart"]')).to_have_count(1)
    label = page.evaluate(
        """() => { const chart = document.querySelector('[data-testid="stPlotlyChart"]');
        return (chart.closest('[aria-label]') || chart.querySelector('[aria-label]') || chart)
            .getAttribute('aria-label'); }"""
    )
    assert "GPU 5 needs" in label
    panels = page.get_by_role("img", name="by phase")
    expect(panels).to_have_count(6)
    assert all(panel.get_attribute("aria-label") for panel in panels.all())


def test_the_fit_map_is_a_table_with_this_plan_marked(page: Page) -> None:
    table = page.get_by_role("table", name="Fit map")
    expect(table.get_by_role("columnheader")).to_have_count(5)
    expect(table.get_by_role("rowheader")).to_have_count(4)
    expect(table.locator("[aria-current]")).to_have_count(1)


@pytest.mark.parametrize(("width", "columns"), [(1440, 6), (1024, 4), (390, 2)])
def test_panels_stand_in_as_many_columns_as_there_is_room(
    opened_once: Page, width: int, columns: int
) -> None:
    page = opened_once
    page.set_viewport_size({"width": width, "height": 1000})
    page.wait_for_function(
        """columns => new Set([...document.querySelectorAll('.step')].map(
            step => Math.round(step.getBoundingClientRect().left))).size === columns""",
        arg=columns,
        timeout=WAIT_MS,
    )
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


def test_the_keyboard_reaches_the_changes_and_shows_where_it_is(page: Page) -> None:
    page.locator('[class*="st-key-apply_0"] button').focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    ring = page.evaluate(
        """() => { const s = getComputedStyle(document.activeElement);
        return [document.activeElement.innerText, s.outlineStyle + s.boxShadow]; }"""
    )
    assert ring[0].startswith("Apply")
    assert ring[1] != "nonenone"
