"""Checking by tracing and memory snapshots as a person meets them: real traces, hostile files, themes, widths."""

from __future__ import annotations

import pickle
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from planner.units import MIB
from profiler.allocator.settings import AllocatorSettings
from tests.browser import colors
from tests.browser.conftest import WAIT_MS, Opened, settle
from tests.browser.test_measure import LEFT_S, STREAMLIT_PROBES, processes, query_of, read
from tests.browser.test_measure import settle as settle_measure
from tests.profiler.scenarios import GPT2, scenario
from tests.profiler.snapshot.writer import LINEAR, STATES, record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

    from ui.document import Document

    OpenPage = Callable[..., Opened]

pytestmark = pytest.mark.browser

WIDTHS = (390, 1024, 1440)
TRACE_MS = 180_000
CHILD = b"profiler.trace.child"
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def open_measure(browser: Browser, page_url: str) -> Iterator[OpenPage]:
    """Open the Measure page with a question, at a width, in a colour scheme."""
    contexts = []

    def start(document: Document, *, width: int = 1440, scheme: str = "light") -> Opened:
        context = browser.new_context(
            viewport={"width": width, "height": 1000},
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        contexts.append(context)
        opened = Opened(context.new_page())
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
        settle_measure(opened.page)
        return opened

    yield start
    for context in contexts:
        context.close()


def asked(tokens: int = 64) -> Document:
    changes = {"hardware.devices": [{"gpu": "h100-sxm-80gb"}], "training.sequence_length": tokens}
    return scenario(GPT2, **changes)


def start_trace(page: Page) -> None:
    page.click(".st-key-trace_start button")


def traced(page: Page) -> None:
    """Press the button and wait for the answer, which is there at once if the question was traced before."""
    start_trace(page)
    page.wait_for_selector(".st-key-trace_timeline .main-svg .cartesianlayer", timeout=TRACE_MS)
    settle(page)


def nothing_left() -> bool:
    end_s = time.monotonic() + LEFT_S
    while processes(CHILD):
        if time.monotonic() > end_s:
            return False
        time.sleep(0.1)
    return True


def no_sideways_scroll(page: Page, width: int) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    main = page.eval_on_selector('[data-testid="stMain"]', "box => [box.scrollWidth, box.clientWidth]")
    assert main[0] <= main[1]


def weak_texts(page: Page, least: int) -> list[tuple[float, str, str, str]]:
    texts = page.evaluate(colors.TEXTS)
    assert len(texts) > least
    return [
        (round(ratio, 2), text["text"][:40], text["color"], text["behind"])
        for text in texts
        if (ratio := colors.contrast(text["color"], text["behind"])) < colors.LEAST_CONTRAST
    ]


@linux
def test_a_real_trace_is_cancelled_and_then_runs_to_its_answer(open_page: OpenPage, page_url: str) -> None:
    opened = open_page(query=query_of(asked()))
    page = opened.page
    page.wait_for_selector(".st-key-trace >> text=Check by tracing", timeout=WAIT_MS)
    assert page.locator(".st-key-trace_timeline").count() == 0
    start_trace(page)
    page.click(".st-key-trace_stop button", timeout=WAIT_MS)
    page.wait_for_selector("text=Cancelled, as asked", timeout=WAIT_MS)
    assert nothing_left()
    traced(page)
    section = page.inner_text(".st-key-trace")
    for said in ("Traced", "allocated at the peak", "Beside the formulas", "Cards for this step", "Reserved"):
        assert said in section
    assert nothing_left()
    page.click(".st-key-trace_largest summary")
    page.wait_for_selector("text=transformer.wte.weight", timeout=WAIT_MS)
    for server in processes(b"streamlit", str(urlsplit(page_url).port).encode()):
        assert b"libtorch" not in read(Path("/proc") / str(server) / "maps")
    hosts = {urlsplit(url).hostname for url in opened.requests if not url.startswith(("data:", "blob:"))}
    assert hosts == {"127.0.0.1"}
    assert opened.complaints == []


def test_an_edit_marks_the_answer_as_an_earlier_ones(open_page: OpenPage) -> None:
    page = open_page(query=query_of(asked())).page
    traced(page)
    page.fill('[class*="st-key-training-sequence_length"] input', "48")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=The last trace answers an earlier question", timeout=WAIT_MS)
    assert page.locator(".st-key-trace_timeline").count() == 0
    page.click(".st-key-trace_show button")
    page.wait_for_selector(".st-key-trace_timeline .main-svg", timeout=WAIT_MS)
    assert "earlier question" in page.inner_text(".st-key-trace")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_trace_has_no_sideways_scroll(open_page: OpenPage, width: int) -> None:
    page = open_page(query=query_of(asked()), width=width).page
    no_sideways_scroll(page, width)
    traced(page)
    no_sideways_scroll(page, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_of_a_trace_stands_out(open_page: OpenPage, scheme: str) -> None:
    page = open_page(query=query_of(asked()), scheme=scheme).page
    traced(page)
    assert weak_texts(page, 150) == []


def test_a_theme_switch_leaves_no_stale_colour(open_page: OpenPage) -> None:
    page = open_page(query=query_of(asked()), scheme="light").page
    traced(page)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "want => getComputedStyle(document.querySelector('h1.v')).color === want",
        arg=colors.as_browser("text", dark=True),
        timeout=WAIT_MS,
    )
    dark = set(page.evaluate(colors.FIGURE_COLORS))
    assert colors.as_browser("text", dark=True) in dark
    assert dark & colors.only_light() == set()


# ---------------------------------------------------------------- snapshots


class Harmful:
    """Would leave a file behind if it were unpickled without care."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


def upload(page: Page, path: Path) -> None:
    page.set_input_files('[class*="st-key-snapshot_upload"] input[type="file"]', path)


def good_snapshot(tmp_path: Path) -> Path:
    events = [(0, 30 * MIB), (1, 8 * MIB), (2, 40 * MIB), (2, -1), (3, 9 * MIB), (4, 900 * MIB)]
    recorded = record(events, AllocatorSettings(), 200 * MIB, stacks={0: LINEAR, 1: STATES})
    path = tmp_path / "run.pickle"
    path.write_bytes(recorded.data())
    return path


def open_snapshot(page: Page, path: Path) -> None:
    upload(page, path)
    page.wait_for_selector(".st-key-snapshot_timeline .main-svg .cartesianlayer", timeout=WAIT_MS)
    settle_measure(page)


def test_a_hostile_file_is_refused_and_the_page_goes_on(open_measure: OpenPage, tmp_path: Path) -> None:
    opened = open_measure(asked())
    page, trap = opened.page, tmp_path / "trap"
    hostile = tmp_path / "hostile.pickle"
    hostile.write_bytes(pickle.dumps({"segments": [], "device_traces": [Harmful(trap)]}))
    trap.unlink(missing_ok=True)
    upload(page, hostile)
    page.wait_for_selector("text=Nothing in it was run", timeout=WAIT_MS)
    assert not trap.exists()
    open_snapshot(page, good_snapshot(tmp_path))
    assert page.inner_text("h1.v").startswith("Recorded: at most")
    assert "Ran out of memory" in page.inner_text("p.why")
    page.click(".st-key-snapshot_close button")
    page.wait_for_selector(".st-key-measure_start", timeout=WAIT_MS)
    assert [text for text in opened.complaints if not text.endswith(STREAMLIT_PROBES)] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_a_snapshot_has_no_sideways_scroll(
    open_measure: OpenPage,
    tmp_path: Path,
    width: int,
) -> None:
    page = open_measure(asked(), width=width).page
    open_snapshot(page, good_snapshot(tmp_path))
    no_sideways_scroll(page, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_of_a_snapshot_stands_out(open_measure: OpenPage, tmp_path: Path, scheme: str) -> None:
    page = open_measure(asked(), scheme=scheme).page
    open_snapshot(page, good_snapshot(tmp_path))
    assert weak_texts(page, 100) == []
