"""Files of other programs as a person meets them: pasted, opened, downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser import checks
from tests.browser.opening import WAIT_MS, query_of, settle
from ui.examples import STORIES, story_document

if TYPE_CHECKING:
    from tests.browser import checks
from tests.browser.opening import OpenPage

pytestmark = pytest.mark.browser

COMMAND = "vllm serve meta-llama/Llama-3.1-8B -tp 2 --max-model-len 8k --enable-kv-cache-sharing"


def test_a_command_goes_in_and_a_file_comes_out(open_page: OpenPage) -> None:
    page = open_page(query=query_of(story_document(STORIES[3]))).page
    page.locator(".st-key-import_popover button").first.click()
    box = page.get_by_label("Paste a file or a command line")
    box.fill(COMMAND)
    box.press("Control+Enter")
    page.get_by_text("Read as a vLLM command").wait_for(timeout=WAIT_MS)
    expect(page.locator('[data-testid="stPopoverBody"]')).to_contain_text("--enable-prefix-caching")
    page.keyboard.press("Escape")
    settle(page)
    section = page.locator(".st-key-export")
    section.locator("summary").click()
    section.locator("code").first.wait_for(timeout=WAIT_MS)
    expect(section.locator("code").first).to_contain_text("vllm serve meta-llama/Llama-3.1-8B")
    with page.expect_download() as download:
        section.locator(".st-key-export_download button").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert download.value.suggested_filename == "serve.sh"
    assert "--max-model-len 8000" in text
    assert checks.sideways(page, 1440, "with a file") == []
