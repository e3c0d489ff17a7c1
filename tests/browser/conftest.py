"""The running page in Chromium, opened and drawn to the end, with everything it asked for and said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

WAIT_MS = 60_000
SETTLED = '[data-testid="stApp"][data-test-script-state="notRunning"]'


@dataclass
class Opened:
    """A page with what it asked for and what it said."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def settle(page: Page) -> None:
    """Wait until the script has ended and every figure is drawn; the Claims page has none."""
    page.wait_for_selector(SETTLED, timeout=WAIT_MS)
    page.wait_for_selector("h1.v", timeout=WAIT_MS)
    page.wait_for_function(
        """() => {
            const plots = [...document.querySelectorAll('[data-testid="stPlotlyChart"]')];
            const tables = document.querySelector('[class*="st-key-claim"]');
            return (plots.length > 0 || tables) && plots.every(plot => plot.querySelector('.main-svg .cartesianlayer'));
        }""",
        timeout=WAIT_MS,
    )


@pytest.fixture
def open_page(browser: Browser, page_url: str) -> Iterator[Callable[..., Opened]]:
    """Open the page at a width, in a colour scheme and a language, with a query."""
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
        )
        contexts.append(context)
        page = context.new_page()
        opened = Opened(page)
        page.on("request", lambda request: opened.requests.append(request.url))
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.on(
            "console",
            lambda said: (
                opened.complaints.append(f"{said.type}: {said.text} {said.location.get('url', '')}")
                if said.type in {"error", "warning"}
                else None
            ),
        )
        page.goto(page_url.rstrip("/") + "/" + query)
        wait(page)
        return opened

    yield start
    for context in contexts:
        context.close()
