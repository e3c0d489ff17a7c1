"""What the scenarios in Chromium share: when a page is drawn, links, headlines, the server's processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from planner.link import encode
from planner.validation import parse_scenario

if TYPE_CHECKING:
    from playwright.sync_api import Page

WAIT_MS = 120_000
SETTLED = '[data-testid="stApp"][data-test-script-state="notRunning"]'
STREAMLIT_PROBES = ("/_stcore/health", "/_stcore/host-config")
PROC = Path("/proc")


@dataclass
class Opened:
    """A page with what it asked for and what it said."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def listen(self) -> None:
        """Note what the page asks for, what it throws, and every error or warning of its console."""
        page = self.page
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "console",
            lambda said: (
                self.complaints.append(f"{said.type}: {said.text} {said.location.get('url', '')}")
                if said.type in {"error", "warning"}
                else None
            ),
        )

    def errors(self) -> list[str]:
        """What was said, less that Streamlit found nothing at addresses where it looks for a host."""
        return [text for text in self.complaints if not text.endswith(STREAMLIT_PROBES)]

    def hosts(self) -> set[str | None]:
        """The machines that were asked for anything."""
        return {urlsplit(url).hostname for url in self.requests if not url.startswith(("data:", "blob:"))}


OpenPage = Callable[..., Opened]


def settle_words(page: Page) -> None:
    """Wait until the script has ended and the headline stands; not every page has a figure."""
    page.wait_for_selector(SETTLED, timeout=WAIT_MS)
    page.wait_for_selector("h1.v", timeout=WAIT_MS)


def settle(page: Page) -> None:
    """Wait until the script has ended and every figure is drawn; the Claims page has none."""
    settle_words(page)
    page.wait_for_function(
        """() => {
            const plots = [...document.querySelectorAll('[data-testid="stPlotlyChart"]')];
            const tables = document.querySelector('[class*="st-key-claim"]');
            return (plots.length > 0 || tables) && plots.every(plot => plot.querySelector('.main-svg .cartesianlayer'));
        }""",
        timeout=WAIT_MS,
    )


def query_of(document: dict[str, Any]) -> str:
    """The part of a link that carries a scenario."""
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return f"?s={encode(scenario)}"


def headline(page: Page) -> str:
    """What the page says first."""
    return page.inner_text("h1.v")


def wait_for_another(page: Page, headline_before: str) -> None:
    """Wait for another headline, then for the figures."""
    page.wait_for_function(
        "old => document.querySelector('h1.v') && document.querySelector('h1.v').innerText !== old",
        arg=headline_before,
        timeout=WAIT_MS,
    )
    settle(page)


def wait_for_title(page: Page, beginning: str, *, limit_ms: int = WAIT_MS) -> None:
    """Wait for a headline that begins so."""
    page.wait_for_function(
        "start => document.querySelector('h1.v')?.innerText.startsWith(start)",
        arg=beginning,
        timeout=limit_ms,
    )
    settle_words(page)


def read(path: Path) -> bytes:
    """What a file of /proc holds, nothing when its process is gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def processes(*words: bytes) -> list[int]:
    """Processes whose command line has all of these words."""
    lines = ((path, read(path)) for path in PROC.glob("[0-9]*/cmdline"))
    return [int(path.parent.name) for path, line in lines if all(word in line for word in words)]


def servers(page_url: str) -> list[int]:
    """The server of this page, with what it was started by."""
    found = processes(b"streamlit", str(urlsplit(page_url).port).encode())
    assert found
    return found
