"""What must hold on every page, in one visit each, as a list of what is wrong and where.

Legible in both themes, no sideways scroll at three widths, no colour of the other theme left, a clean console,
no other machine asked, PyTorch not in the server.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.browser import checks
from tests.browser.opening import query_of, settle_words
from tests.browser.visits import VISITS
from ui.examples import STORIES, story_document

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.opening import OpenPage

pytestmark = pytest.mark.browser

WIDE, MIDDLE, NARROW = 1440, 1024, 390
PAGES = ("", "cost", "recommend", "buy", "measure", "compare", "diagnose", "claims", "method")


@pytest.mark.parametrize("name", VISITS)
def test_a_page_is_legible_fits_its_width_and_keeps_to_itself(
    open_page: OpenPage, page_url: str, tmp_path: Path, name: str
) -> None:
    visit = VISITS[name]
    opened = open_page(width=WIDE, query=visit.query, wait=settle_words)
    page, wrong, state = opened.page, [], ""
    for state in visit.states(page, tmp_path):
        for width in (MIDDLE, WIDE):
            page.set_viewport_size({"width": width, "height": 1000})
            wrong += checks.sideways(page, width, f"{state}, {width}")
        wrong += checks.weak_texts(page, f"{state}, light", least=visit.least)
    wrong += checks.not_in_figures(page, visit.drawn_in, dark=False, where=f"{state}, light")
    checks.darken(page)
    wrong += checks.not_in_figures(page, visit.drawn_in, dark=True, where=f"{state}, dark")
    wrong += checks.stale_colors(page, f"{state}, dark")
    wrong += checks.weak_texts(page, f"{state}, dark", least=visit.least)
    page.set_viewport_size({"width": NARROW, "height": 1000})
    wrong += checks.sideways(page, NARROW, f"{state}, {NARROW}")
    wrong += checks.said_and_asked(opened)
    if sys.platform == "linux":
        wrong += checks.loaded_by_servers(page_url)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["claims", "method", "buy", "measure"])
def test_a_dark_phone_shows_all_of_it_readably(open_page: OpenPage, tmp_path: Path, name: str) -> None:
    visit = VISITS[name]
    opened = open_page(width=NARROW, scheme="dark", query=visit.query, wait=settle_words)
    page, wrong = opened.page, []
    for state in visit.states(page, tmp_path):
        wrong += checks.sideways(page, NARROW, state)
        wrong += checks.weak_texts(page, state, least=60)
    wrong += checks.said_and_asked(opened)
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_every_example_on_every_page(open_page: OpenPage, path: str, story: str, locale: str) -> None:
    wrong = []
    for width in (NARROW, MIDDLE, WIDE):
        query = path + query_of(story_document(story))
        opened = open_page(width=width, locale=locale, query=query, wait=settle_words)
        for scheme in ("light", "dark"):
            if scheme == "dark":
                checks.darken(opened.page)
            where = f"{width} {scheme}"
            wrong += checks.sideways(opened.page, width, where)
            wrong += checks.weak_texts(opened.page, where, least=40)
        wrong += [f"{width}: {text}" for text in checks.said_and_asked(opened)]
        opened.page.close()
    assert not wrong, "\n".join(wrong)
