"""What must hold on every page, as lists of what is wrong and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from tests.browser import colors
from tests.browser.opening import PROC, SETTLED, WAIT_MS, read, servers

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.opening import Opened

FITS = """width => {
    const main = document.querySelector('[data-testid="stMain"]');
    return document.documentElement.scrollWidth <= width && main.scrollWidth <= main.clientWidth;
}"""
BEYOND = """() => {
    const main = document.querySelector('[data-testid="stMain"]'), edge = main.getBoundingClientRect().right;
    const wide = [...main.querySelectorAll('*')].filter(one => one.getBoundingClientRect().right > edge + 1);
    const names = wide.slice(-3).map(one => `${one.tagName}.${one.className}`);
    return `page ${document.documentElement.scrollWidth}, main ${main.scrollWidth} of ${main.clientWidth}: ${names}`;
}"""
CHANGING = """() => document.getAnimations().some(
    one => one instanceof CSSTransition && one.playState === 'running')"""
REDRAWN_MS = 60_000


def sideways(page: Page, width: int, where: str) -> list[str]:
    """Whether something stands beyond the edge, once figures had time to take the width."""
    try:
        page.wait_for_function(FITS, arg=width, timeout=REDRAWN_MS)
    except PlaywrightTimeoutError:
        return [f"{where}: runs sideways: {page.evaluate(BEYOND)}"]
    return []


def weak_texts(page: Page, where: str, *, least: int) -> list[str]:
    """Texts that do not stand out from what is behind them, and whether there are as many as there should be."""
    at_rest(page)
    texts = page.evaluate(colors.TEXTS)
    few = [] if len(texts) > least else [f"{where}: only {len(texts)} texts"]
    return few + [
        f"{where}: contrast {ratio:.2f}: {text['text'][:40]!r} {text['color']} on {text['behind']}"
        for text in texts
        if (ratio := colors.contrast(text["color"], text["behind"])) < colors.LEAST_CONTRAST
    ]


def darken(page: Page) -> None:
    """Have the system ask for dark and wait for the page to follow."""
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "want => getComputedStyle(document.querySelector('h1.v')).color === want",
        arg=colors.as_browser("text", dark=True),
        timeout=WAIT_MS,
    )
    at_rest(page)


def at_rest(page: Page) -> None:
    """Wait until the script has ended and nothing changes colour any more."""
    page.wait_for_selector(SETTLED, timeout=WAIT_MS)
    page.wait_for_function(f"() => !({CHANGING})()", timeout=WAIT_MS)


def not_in_figures(page: Page, token: str | None, *, dark: bool, where: str) -> list[str]:
    """Whether no figure is drawn in this colour of the theme."""
    if token is None or colors.as_browser(token, dark=dark) in set(page.evaluate(colors.FIGURE_COLORS)):
        return []
    return [f"{where}: no figure is drawn in {token}"]


def stale_colors(page: Page, where: str) -> list[str]:
    """Light colours left in figures of a dark page."""
    stale = set(page.evaluate(colors.FIGURE_COLORS)) & colors.only_light()
    return [f"{where}: still {color}" for color in sorted(stale)]


def said_and_asked(opened: Opened) -> list[str]:
    """What the console complained of, and machines other than this one that were asked for something."""
    foreign = sorted(map(str, opened.hosts() ^ {"127.0.0.1"}))
    return [f"console: {text}" for text in opened.errors()] + [f"asked {host}" for host in foreign]


def loaded_by_servers(page_url: str) -> list[str]:
    """Libraries of PyTorch or Transformers that the server of this page has loaded; reads /proc."""
    maps = [read(PROC / str(server) / "maps") for server in servers(page_url)]
    assert any(maps)
    return [
        f"the server loaded {name}" for name in ("libtorch", "tokenizers") if name.encode() in b"".join(maps)
    ]
