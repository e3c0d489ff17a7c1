"""Checking by tracing and memory snapshots as a person meets them: real traces, hostile files."""

from __future__ import annotations

import pickle
import sys
import time
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser import checks
from tests.browser.opening import WAIT_MS, processes, query_of, settle_words, wait_for_title
from tests.browser.test_measure import LEFT_S
from tests.browser.visits import asked, open_snapshot, traced, upload_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.opening import OpenPage

pytestmark = pytest.mark.browser

CHILD = b"profiler.trace.child"
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def nothing_left() -> bool:
    end_s = time.monotonic() + LEFT_S
    while processes(CHILD):
        if time.monotonic() > end_s:
            return False
        time.sleep(0.1)
    return True


@linux
def test_a_real_trace_is_cancelled_and_then_runs_to_its_answer(open_page: OpenPage, page_url: str) -> None:
    # Traced by no other test, so that there is something to cancel.
    opened = open_page(query=query_of(asked(80)))
    page = opened.page
    page.wait_for_selector(".st-key-trace >> text=Check by tracing", timeout=WAIT_MS)
    expect(page.locator(".st-key-trace_timeline")).to_have_count(0)
    settle_words(page)
    page.click(".st-key-trace_start button")
    page.click(".st-key-trace_stop button", timeout=WAIT_MS)
    page.wait_for_selector("text=Cancelled, as asked", timeout=WAIT_MS)
    assert nothing_left()
    traced(page)
    for said in ("Traced", "allocated at the peak", "Beside the formulas", "Cards for this step", "Reserved"):
        expect(page.locator(".st-key-trace")).to_contain_text(said)
    assert nothing_left()
    page.click(".st-key-trace_largest summary")
    page.wait_for_selector("text=transformer.wte.weight", timeout=WAIT_MS)
    assert checks.loaded_by_servers(page_url) == []
    assert opened.hosts() == {"127.0.0.1"}
    assert opened.complaints == []


def test_an_edit_marks_the_answer_as_an_earlier_ones(open_page: OpenPage) -> None:
    page = open_page(query=query_of(asked())).page
    traced(page)
    page.fill('[class*="st-key-training-sequence_length"] input', "48")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=The last trace answers an earlier question", timeout=WAIT_MS)
    expect(page.locator(".st-key-trace_timeline")).to_have_count(0)
    page.click(".st-key-trace_show button")
    page.wait_for_selector(".st-key-trace_timeline .main-svg", timeout=WAIT_MS)
    expect(page.locator(".st-key-trace")).to_contain_text("earlier question")


# ---------------------------------------------------------------- snapshots


class Harmful:
    """Would leave a file behind if it were unpickled without care."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


def test_a_hostile_file_is_refused_and_the_page_goes_on(open_page: OpenPage, tmp_path: Path) -> None:
    opened = open_page(query="measure" + query_of(asked()), wait=settle_words)
    page, trap = opened.page, tmp_path / "trap"
    hostile = tmp_path / "hostile.pickle"
    hostile.write_bytes(pickle.dumps({"segments": [], "device_traces": [Harmful(trap)]}))
    trap.unlink(missing_ok=True)
    upload_snapshot(page, hostile)
    page.wait_for_selector("text=Nothing in it was run", timeout=WAIT_MS)
    assert not trap.exists()
    open_snapshot(page, tmp_path)
    wait_for_title(page, "Recorded: at most")
    expect(page.locator("p.why").first).to_contain_text("Ran out of memory")
    page.click(".st-key-snapshot_close button")
    page.wait_for_selector(".st-key-measure_start", timeout=WAIT_MS)
    assert opened.errors() == []
