"""The Measure page as a person meets it: a real step on the processor, faults, themes, widths."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from planner.link import encode
from planner.validation import parse_scenario
from tests.browser import colors
from tests.browser.conftest import SETTLED, WAIT_MS, Opened
from tests.ui.measure_cases import as_file, on_a_card, report_of, tiny

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

    OpenMeasure = Callable[..., Opened]

pytestmark = pytest.mark.browser

WIDTHS = (390, 1024, 1440)
STREAMLIT_PROBES = ("/_stcore/health", "/_stcore/host-config")
RUN_MS = 180_000
LEFT_S = 20.0
PROC = Path("/proc")
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def open_measure(browser: Browser, page_url: str) -> Iterator[OpenMeasure]:
    """Open the page with a question, at a width, in a colour scheme."""
    contexts = []

    def start(document: dict[str, Any] | None = None, *, width: int = 1440, scheme: str = "light") -> Opened:
        viewport: Any = {"width": width, "height": 1000}
        asked: Any = scheme
        context = browser.new_context(viewport=viewport, color_scheme=asked)
        contexts.append(context)
        opened = Opened(context.new_page())
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        opened.page.on(
            "console",
            lambda said: (
                opened.complaints.append(f"{said.text} {said.location.get('url', '')}")
                if said.type in {"error", "warning"}
                else None
            ),
        )
        opened.page.goto(f"{page_url.rstrip('/')}/measure{query_of(document)}")
        settle(opened.page)
        return opened

    yield start
    for context in contexts:
        context.close()


def query_of(document: dict[str, Any] | None) -> str:
    if document is None:
        return ""
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return f"?s={encode(scenario)}"


def settle(page: Page) -> None:
    page.wait_for_selector(SETTLED, timeout=WAIT_MS)
    page.wait_for_selector("h1.v", timeout=WAIT_MS)


def wait_for_title(page: Page, beginning: str) -> None:
    page.wait_for_function(
        "start => document.querySelector('h1.v')?.innerText.startsWith(start)", arg=beginning, timeout=RUN_MS
    )
    settle(page)


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def processes(*words: bytes) -> list[int]:
    """Processes whose command line has all of these words."""
    lines = ((path, read(path)) for path in PROC.glob("[0-9]*/cmdline"))
    return [int(path.parent.name) for path, line in lines if all(word in line for word in words)]


def workers(page_url: str) -> list[int]:
    """Measuring processes that the server of this page has started."""
    servers = processes(b"streamlit", str(urlsplit(page_url).port).encode())
    assert servers
    children = {
        int(text)
        for server in servers
        for task in (PROC / str(server) / "task").iterdir()
        for text in read(task / "children").split()
    }
    return [pid for pid in processes(b"profiler.worker") if pid in children]


def wait_for_worker(page_url: str) -> int:
    end_s = time.monotonic() + LEFT_S
    while not (found := workers(page_url)):
        assert time.monotonic() < end_s, "no process was started"
        time.sleep(0.1)
    return found[0]


def nothing_left(page_url: str) -> bool:
    end_s = time.monotonic() + LEFT_S
    while workers(page_url):
        if time.monotonic() > end_s:
            return False
        time.sleep(0.1)
    return True


@linux
def test_a_measurement_runs_to_its_end_while_other_pages_are_open(
    open_measure: OpenMeasure, page_url: str
) -> None:
    opened = open_measure(tiny())
    page = opened.page
    assert page.inner_text("h1.v") == "Ready to measure one step on the processor"
    page.click(".st-key-measure_start button")
    wait_for_worker(page_url)
    page.get_by_role("link", name="Plan").click()
    page.wait_for_selector(".st-key-gpu_bars", timeout=WAIT_MS)
    page.get_by_role("link", name="Measure").click()
    wait_for_title(page, "Measured")
    assert "GiB" in page.inner_text("h1.v")
    assert "Within 1 %" in page.inner_text("p.why")
    page.wait_for_selector(".st-key-measure_steps .main-svg", timeout=WAIT_MS)
    phases = page.inner_text(".st-key-measure_phases")
    assert [word for word in ("Forward", "Loss", "Backward", "Optimizer step") if word not in phases] == []
    with page.expect_download() as download:
        page.click(".st-key-measure_download button")
    assert b"headroom_measurement" in Path(download.value.path()).read_bytes()
    assert nothing_left(page_url)
    for server in processes(b"streamlit", str(urlsplit(page_url).port).encode()):
        assert b"libtorch" not in read(PROC / str(server) / "maps")
    hosts = {urlsplit(url).hostname for url in opened.requests if not url.startswith(("data:", "blob:"))}
    assert hosts == {"127.0.0.1"}
    assert [text for text in opened.complaints if not text.endswith(STREAMLIT_PROBES)] == []


@linux
def test_a_killed_process_is_told_and_the_next_one_can_be_stopped(
    open_measure: OpenMeasure, page_url: str
) -> None:
    page = open_measure(tiny(**{"training.sequence_length": 48})).page
    page.click(".st-key-measure_start button")
    os.kill(wait_for_worker(page_url), signal.SIGKILL)
    wait_for_title(page, "The measuring process crashed")
    assert "ended from outside by SIGKILL" in page.inner_text("p.why")
    page.click(".st-key-measure_start button")
    wait_for_worker(page_url)
    page.click(".st-key-measure_stop button")
    wait_for_title(page, "Stopped, as asked")
    assert nothing_left(page_url)


def open_report(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(as_file(report_of(on_a_card(), "cuda", factor=0.9)))
    page.set_input_files('[class*="st-key-measure_upload"] input[type="file"]', path)
    wait_for_title(page, "Measured")
    page.wait_for_selector(".st-key-measure_parts .main-svg .cartesianlayer", timeout=WAIT_MS)
    settle(page)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_sideways_scroll(open_measure: OpenMeasure, tmp_path: Path, width: int) -> None:
    page = open_measure(width=width).page
    for with_report in (False, True):
        if with_report:
            open_report(page, tmp_path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        main = page.eval_on_selector('[data-testid="stMain"]', "box => [box.scrollWidth, box.clientWidth]")
        assert main[0] <= main[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(
    open_measure: OpenMeasure, tmp_path: Path, scheme: str
) -> None:
    page = open_measure(scheme=scheme).page
    for with_report in (False, True):
        if with_report:
            open_report(page, tmp_path)
        texts = page.evaluate(colors.TEXTS)
        assert len(texts) > 80
        weak = [
            (round(ratio, 2), text["text"][:40], text["color"], text["behind"])
            for text in texts
            if (ratio := colors.contrast(text["color"], text["behind"])) < colors.LEAST_CONTRAST
        ]
        assert weak == []


def test_a_theme_switch_leaves_no_stale_colour(open_measure: OpenMeasure, tmp_path: Path) -> None:
    page = open_measure(scheme="light").page
    open_report(page, tmp_path)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "want => getComputedStyle(document.querySelector('h1.v')).color === want",
        arg=colors.as_browser("text", dark=True),
        timeout=WAIT_MS,
    )
    dark = set(page.evaluate(colors.FIGURE_COLORS))
    assert colors.as_browser("text", dark=True) in dark
    assert dark & colors.only_light() == set()


def test_a_phone_shows_the_verdict_and_then_the_button(open_measure: OpenMeasure) -> None:
    page = open_measure(tiny(), width=390).page
    title, start, what = (
        page.locator(selector).first.bounding_box()
        for selector in ("h1.v", ".st-key-measure_start", ".st-key-measure_what")
    )
    assert title is not None
    assert start is not None
    assert what is not None
    assert title["y"] < 300
    assert title["y"] < start["y"] < what["y"]
