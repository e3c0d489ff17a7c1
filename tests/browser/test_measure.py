"""The Measure page as a person meets it: a real step on the processor, faults, a phone."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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
LEFT_S = 20.0
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
    assert page.inner_text("h1.v") == "Ready to measure one step on the processor"
    page.click(".st-key-measure_start button")
    wait_for_worker(page_url)
    page.get_by_role("link", name="Plan").click()
    page.wait_for_selector(".st-key-gpu_bars", timeout=WAIT_MS)
    page.get_by_role("link", name="Measure").click()
    wait_for_title(page, "Measured", limit_ms=RUN_MS)
    assert "GiB" in page.inner_text("h1.v")
    assert "Within 1 %" in page.inner_text("p.why")
    page.wait_for_selector(".st-key-measure_steps .main-svg", timeout=WAIT_MS)
    phases = page.inner_text(".st-key-measure_phases")
    assert [word for word in ("Forward", "Loss", "Backward", "Optimizer step") if word not in phases] == []
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
    assert "ended from outside by SIGKILL" in page.inner_text("p.why")
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
