"""The running page in Chromium, opened and drawn to the end, with everything it asked for and said."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.opening import WAIT_MS, Opened, OpenPage, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

# A page may still be drawing when a test looks; `expect` looks again until it is as expected.
expect.set_options(timeout=WAIT_MS)


@contextmanager
def opener(browser: Browser, page_url: str) -> Iterator[OpenPage]:
    """Open pages that are closed at the end."""
    contexts = []

    def start(
        *,
        width: int = 1440,
        scheme: str = "light",
        query: str = "",
        locale: str = "en-US",
        wait: Callable[[Page], None] = settle,
    ) -> Opened:
        context = browser.new_context(
            viewport={"width": width, "height": 1000},
            color_scheme=scheme,  # type: ignore[arg-type]
            locale=locale,
            reduced_motion="reduce",  # what moves while a page is made costs a third of an opening
        )
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        opened = Opened(context.new_page())
        opened.listen()
        opened.page.goto(page_url.rstrip("/") + "/" + query)
        wait(opened.page)
        return opened

    try:
        yield start
    finally:
        for context in contexts:
            context.close()


@pytest.fixture
def open_page(browser: Browser, page_url: str) -> Iterator[OpenPage]:
    """Open the page at a width, in a colour scheme and a language, with a query."""
    with opener(browser, page_url) as start:
        yield start


@pytest.fixture(scope="module")
def open_for_all(browser: Browser, page_url: str) -> Iterator[OpenPage]:
    """The same for a page that several tests of a file look at and leave as it is."""
    with opener(browser, page_url) as start:
        yield start
