"""Both languages as a person meets them: guessed, switched, kept; nothing clipped and nothing mixed on any page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.browser.opening import settle_words

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.opening import OpenPage

pytestmark = pytest.mark.browser

CJK = re.compile(r"[\u3400-\u9fff]")
ENGLISH = re.compile(r"\b[a-z]{3,} [a-z]{3,}", re.ASCII)
NAMES = re.compile(
    r"flash attention|state dict|cudamalloc retries|non-releasable memory|epoch hardware prices\.csv: \w+"
    r"|epoch ml_hardware\.csv release price|serverless \w+",
    re.IGNORECASE,
)
"""Names of programs, messages and data that stay as they are written."""
PAGES = ("", "cost", "recommend", "buy", "measure", "compare", "diagnose", "claims", "method")
TEXTS = """() => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
        const box = node.parentElement;
        if (!box.closest('script, style, code, pre, textarea, a, [data-testid="stIconMaterial"]')
            && getComputedStyle(box).fontSize !== '0px' && box.getClientRects().length)
            found.push(node.textContent.trim());
    }
    return found.filter(text => text);
}"""
CLIPPED = """() => [...document.querySelectorAll('[data-testid="stMain"] *, [data-testid="stHeader"] *')]
  .filter(box => {
    const style = getComputedStyle(box);
    const cuts = style.overflowX === 'hidden' || style.textOverflow === 'ellipsis';
    return cuts && box.innerText && box.clientWidth > 4 && box.scrollWidth > box.clientWidth + 1
        && !box.closest('.sr, button, [data-testid="stDataFrame"]');
}).map(box => box.innerText.slice(0, 60))"""


def is_chinese(page: Page) -> bool:
    settle_words(page)
    return bool(CJK.search(page.inner_text("h1.v")))


def go_to(page: Page, title: str) -> None:
    page.get_by_role("link", name=title, exact=True).first.click()
    page.wait_for_function("name => location.pathname.includes(name)", arg=title.lower())
    settle_words(page)


def test_the_language_is_guessed_switched_and_kept(open_page: OpenPage) -> None:
    page = open_page(locale="zh-TW").page
    assert is_chinese(page)
    page.get_by_role("radio", name="English").click()
    page.wait_for_function("() => !/[\\u3400-\\u9fff]/.test(document.querySelector('h1.v').innerText)")
    go_to(page, "Compare")
    assert not is_chinese(page)
    assert "lang" not in page.url
    page.get_by_role("radio", name="\u4e2d\u6587").click()
    page.wait_for_function("() => /[\\u3400-\\u9fff]/.test(document.querySelector('h1.v').innerText)")
    assert "lang" not in page.url


@pytest.mark.long
@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (1440, "dark"), (390, "light")])
@pytest.mark.parametrize("locale", ["zh-CN", "en-US"])
def test_no_page_clips_or_mixes_text(
    open_page: OpenPage, path: str, width: int, scheme: str, locale: str
) -> None:
    page = open_page(locale=locale, width=width, scheme=scheme, query=path, wait=settle_words).page
    page.wait_for_timeout(1000)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CLIPPED) == []
    texts = page.evaluate(TEXTS)
    if locale == "en-US":
        assert {text for text in texts if CJK.search(text)} <= {"\u4e2d\u6587"}
    else:
        assert [text for text in texts if ENGLISH.search(NAMES.sub("", text))] == []
