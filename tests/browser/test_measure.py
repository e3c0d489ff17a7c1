"""The Measure page as a person meets it: a real step on the processor, faults, a phone."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser import checks
from tests.browser.opening import (
    PROC,
    WAIT_MS,
    processes,
    query_of,
    read,
    servers,
    settle_words,
    wait_for_title,
)
from tests.ui.measure_cases import tiny

if TYPE_CHECKING:
    from tests.browser.opening import OpenPage

pytestmark = pytest.mark.browser

RUN_MS = 180_000
LEFT_S = 60.0
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def workers(page_url: str) -> list[int]:
    """Measuring processes that the server of this page has started."""
    children = {
        int(text)
        for server in servers(page_url)
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
def test_a_measurement_runs_to_its_end_while_other_pages_are_open(open_page: OpenPage, page_url: str) -> None:
    opened = open_page(query="measure" + query_of(tiny()), wait=settle_words)
    page = opened.page
    expect(page.locator("h1.v")).to_have_text("Ready to measure one step on the processor")
    page.click(".st-key-measure_start button")
    wait_for_worker(page_url)
    page.get_by_role("link", name="Plan").click()
    page.wait_for_selector(".st-key-gpu_bars", timeout=WAIT_MS)
    page.get_by_role("link", name="Measure").click()
    wait_for_title(page, "Measured", limit_ms=RUN_MS)
    expect(page.locator("h1.v")).to_contain_text("GiB")
    expect(page.locator("p.why").first).to_contain_text("Within 1 %")
    page.wait_for_selector(".st-key-measure_steps .main-svg", timeout=WAIT_MS)
    for word in ("Forward", "Loss", "Backward", "Optimizer step"):
        expect(page.locator(".st-key-measure_phases")).to_contain_text(word)
    with page.expect_download() as download:
        page.click(".st-key-measure_download button")
    assert b"headroom_measurement" in Path(download.value.path()).read_bytes()
    assert nothing_left(page_url)
    assert checks.loaded_by_servers(page_url) == []
    assert opened.hosts() == {"127.0.0.1"}
    assert opened.errors() == []


@linux
def test_a_killed_process_is_told_and_the_next_one_can_be_stopped(open_page: OpenPage, page_url: str) -> None:
    page = open_page(
        query="measure" + query_of(tiny(**{"training.sequence_length": 48})), wait=settle_words
    ).page
    page.click(".st-key-measure_start button")
    os.kill(wait_for_worker(page_url), signal.SIGKILL)
    wait_for_title(page, "The measuring process crashed", limit_ms=RUN_MS)
    expect(page.locator("p.why").first).to_contain_text("ended from outside by SIGKILL")
    page.click(".st-key-measure_start button")
    wait_for_worker(page_url)
    page.click(".st-key-measure_stop button")
    wait_for_title(page, "Stopped, as asked", limit_ms=RUN_MS)
    assert nothing_left(page_url)


def test_a_phone_shows_the_verdict_and_then_the_button(open_page: OpenPage) -> None:
    page = open_page(width=390, query="measure" + query_of(tiny()), wait=settle_words).page
    title, start, what = (
        page.locator(selector).first.bounding_box()
        for selector in ("h1.v", ".st-key-measure_start", ".st-key-measure_what")
    )
    assert title is not None
    assert start is not None
    assert what is not None
    assert title["y"] < 300
    assert title["y"] < start["y"] < what["y"]
