"""The states a page is brought into, for the checks of every page and for the scenarios of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.units import MIB
from profiler.allocator.settings import AllocatorSettings
from tests.browser.opening import SETTLED, WAIT_MS, query_of, settle, settle_words, wait_for_title
from tests.profiler.scenarios import GPT2, scenario
from tests.profiler.snapshot.writer import LINEAR, STATES, record
from tests.ui.measure_cases import as_file, on_a_card, report_of
from ui.claims.listing import TOPICS
from ui.document import put_all
from ui.examples import STORIES, default_document, story_document
from ui.words import words_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    from ui.document import Document

SERVED = "llama-70b-awq-two-l40s"
TRACE_MS = 180_000
WISH: Document = {
    "version": 1,
    "task": "full",
    "model": {"id": "meta-llama/Llama-3.1-8B"},
    "hardware": {"devices": [{"gpu": "l4-24gb", "count": 1}]},
    "runtime": {"name": "torchtitan"},
    "training": {"sequence_length": 4096},
}
"""A question for the Recommend page that has an answer."""
TABS = ("gaps", "data", "verified", "formulas", "accuracy")
"""The one with figures last, for its colours after a change of theme."""
FOLDED = '[class*="st-key-method_"] summary'
SIGN = {
    "accuracy": ".st-key-fits table",
    "formulas": ".st-key-formulas_weights table",
    "verified": ".st-key-verified table",
    "data": ".st-key-data table",
    "gaps": ".st-key-refused",
}
"""What a tab shows when it is drawn."""
REQUESTS: Document = put_all(story_document(SERVED), {"workload.requests_per_s": 4.0})


def asked(tokens: int = 64) -> Document:
    """A small question that is traced in seconds."""
    changes = {"hardware.devices": [{"gpu": "h100-sxm-80gb"}], "training.sequence_length": tokens}
    return scenario(GPT2, **changes)


def traced(page: Page) -> None:
    """Press the button and wait for the answer, which is there at once if the question was traced before."""
    page.click(".st-key-trace_start button")
    page.wait_for_selector(".st-key-trace_timeline .main-svg .cartesianlayer", timeout=TRACE_MS)
    settle(page)


def upload_snapshot(page: Page, path: Path) -> None:
    """Hand the Measure page a memory snapshot."""
    page.set_input_files('[class*="st-key-snapshot_upload"] input[type="file"]', path)


def open_snapshot(page: Page, folder: Path) -> None:
    """Open a snapshot that ends with a failure."""
    events = [(0, 30 * MIB), (1, 8 * MIB), (2, 40 * MIB), (2, -1), (3, 9 * MIB), (4, 900 * MIB)]
    recorded = record(events, AllocatorSettings(), 200 * MIB, stacks={0: LINEAR, 1: STATES})
    path = folder / "run.pickle"
    path.write_bytes(recorded.data())
    upload_snapshot(page, path)
    page.wait_for_selector(".st-key-snapshot_timeline .main-svg .cartesianlayer", timeout=WAIT_MS)
    settle_words(page)


def open_report(page: Page, folder: Path) -> None:
    """Open a report of a step on a card."""
    path = folder / "report.json"
    path.write_bytes(as_file(report_of(on_a_card(), "cuda", factor=0.9)))
    page.set_input_files('[class*="st-key-measure_upload"] input[type="file"]', path)
    wait_for_title(page, "Measured")
    page.wait_for_selector(".st-key-measure_parts .main-svg .cartesianlayer", timeout=WAIT_MS)
    settle_words(page)


def open_requests(page: Page) -> None:
    """Open the section on requests and wait for its topics."""
    page.get_by_text("Requests: lengths").click()
    page.get_by_role("radio", name="Lengths", exact=True).wait_for(timeout=WAIT_MS)


def tabs(page: Page, _folder: Path) -> Iterator[str]:
    """Open one tab after the other, with everything that is folded in it."""
    words = words_for("en")
    for tab in TABS:
        page.get_by_role("tab", name=words(f"method.tab.{tab}"), exact=True).click()
        page.wait_for_selector(SIGN[tab], timeout=WAIT_MS)
        page.wait_for_selector(SETTLED, timeout=WAIT_MS)
        for position, box in enumerate(page.locator(FOLDED).all(), start=1):
            box.click()
            page.wait_for_function(
                "([selector, n]) => [...document.querySelectorAll(selector)].filter("
                "one => one.closest('details').querySelector('table')).length >= n",
                arg=[FOLDED, position],
                timeout=WAIT_MS,
            )
        yield tab


def as_opened(page: Page, _folder: Path) -> Iterator[str]:
    """The page as it is when it opens."""
    settle_words(page)
    yield "as opened"


def own_price(page: Page, _folder: Path) -> Iterator[str]:
    """With a price of one's own begun, under the list of offers."""
    page.wait_for_selector('[data-testid="stDataFrame"] canvas', timeout=WAIT_MS)
    settle_words(page)
    page.get_by_text("My prices", exact=True).last.click()
    settle_words(page)
    page.get_by_text("+ A price").click()
    page.get_by_text("Price 1: no price yet.").wait_for(timeout=WAIT_MS)
    settle(page)
    yield "with a price"


def plans(page: Page, _folder: Path) -> Iterator[str]:
    """With plans that fit."""
    page.wait_for_selector(".st-key-rec_open_0 button", timeout=WAIT_MS)
    settle(page)
    yield "with plans"


def builds(page: Page, _folder: Path) -> Iterator[str]:
    """To what is left out, which stands last."""
    page.get_by_text("Left out: the machine around cards").wait_for(timeout=WAIT_MS)
    yield "to its end"


def report(page: Page, folder: Path) -> Iterator[str]:
    """Before and after a report is opened."""
    yield "as opened"
    open_report(page, folder)
    yield "with a report"


def snapshot(page: Page, folder: Path) -> Iterator[str]:
    """With a memory snapshot."""
    open_snapshot(page, folder)
    yield "with a snapshot"


def trace(page: Page, _folder: Path) -> Iterator[str]:
    """With a trace and what it answers."""
    traced(page)
    yield "traced"


def topics(page: Page, _folder: Path) -> Iterator[str]:
    """Every topic of the claims."""
    words = words_for("en")
    for topic in TOPICS:
        page.get_by_role("tab", name=words(f"claims.tab.{topic}"), exact=True).click()
        settle(page)
        page.locator(f".st-key-claim_{TOPICS[topic][0]} .claim").first.wait_for()
        yield topic


def requests(page: Page, _folder: Path) -> Iterator[str]:
    """The section on requests, and how to start the server."""
    open_requests(page)
    page.get_by_role("radio", name="Lengths", exact=True).click()
    settle(page)
    page.get_by_text("Start it: flags").click()
    settle(page)
    yield "requests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One page with one question."""

    path: str
    """Address, before the question."""
    document: Document | None = None
    states: Callable[[Page, Path], Iterator[str]] = as_opened
    """Brings the page into one state after the other and names it."""
    least: int = 100
    """There are more texts than this."""
    drawn_in: str | None = None
    """A colour of the theme in which something is drawn in both themes."""

    @property
    def query(self) -> str:
        """Address with the question."""
        return self.path + (query_of(self.document) if self.document else "")


VISITS = {
    "plan": Visit(path="", document=story_document(STORIES[0]), drawn_in="text"),
    "plan-serve": Visit(path="", document=story_document(SERVED)),
    "requests": Visit(path="", document=REQUESTS, states=requests),
    "trace": Visit(path="", document=asked(), states=trace, least=150, drawn_in="text"),
    "cost": Visit(path="cost", document=default_document(), states=own_price, drawn_in="accent"),
    "cost-serve": Visit(path="cost", document=story_document(SERVED)),
    "recommend": Visit(path="recommend", document=WISH, states=plans, least=80),
    "buy": Visit(path="buy", states=builds, least=60),
    "measure": Visit(path="measure", states=report, least=80, drawn_in="text"),
    "snapshot": Visit(path="measure", document=asked(), states=snapshot),
    "compare": Visit(path="compare", document=story_document(STORIES[2])),
    "diagnose": Visit(path="diagnose"),
    "claims": Visit(path="claims", states=topics, least=60),
    "method": Visit(path="method", states=tabs, least=60, drawn_in="text"),
}
