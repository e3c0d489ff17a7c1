"""Ten people on one server: `python -m benchmarks.ten_sessions` (Linux: memory is read from /proc).

Ten pages of one Chromium hold a session each. Printed: the time of an edit while the other nine are open but still,
the time when all ten edit at once, and how much memory the server takes for each session.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from playwright.sync_api import sync_playwright

import run
from benchmarks.browser_latency import BARS, WAIT_MS, summary
from planner.units import KIB, MIB
from tests import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page

SESSIONS: Final = 10
ROUNDS: Final = 4
SETTLE_MS: Final = 1500
CHANGED: Final = (
    f"old => [...document.querySelectorAll('{BARS}')].map(p => p.getAttribute('d')).join() !== old"
)


def server_memory_mib(server: "subprocess.Popen[bytes]") -> float:
    """Resident memory of the server process, MiB."""
    status = Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) * KIB / MIB if found else float("nan")


def _bars(page: "Page") -> str:
    return ",".join(page.eval_on_selector_all(BARS, "paths => paths.map(p => p.getAttribute('d'))"))


def edit_all(pages: "list[Page]", value: int) -> list[float]:
    """Seconds until each page shows its new bars, all edited one right after the other."""
    begun = []
    for page in pages:
        field = page.get_by_label("Sequence", exact=True)
        field.fill(str(value))
        before = _bars(page)
        field.press("Enter")
        begun.append((page, before, time.perf_counter()))
    times = []
    for page, before, start in begun:
        page.wait_for_function(CHANGED, arg=before, timeout=WAIT_MS)
        times.append(time.perf_counter() - start)
    return times


def main() -> None:
    """Open the sessions, edit, and print one JSON object."""
    path = chromium.find()
    if path is None:
        raise SystemExit("no Chromium; python -m tests.chromium fetches one")
    port = run.any_free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(run.ROOT / "app.py"), "--server.port", str(port)]
    server = subprocess.Popen(command, cwd=run.ROOT, stdout=subprocess.DEVNULL)
    try:
        run.wait_until_healthy(server, run.page_url(port))
        with sync_playwright() as playwright, playwright.chromium.launch(executable_path=path) as browser:
            memory, pages = [], []
            for _ in range(SESSIONS):
                page = browser.new_context(viewport={"width": 1440, "height": 1000}).new_page()
                page.goto(run.page_url(port))
                page.wait_for_selector(BARS, timeout=WAIT_MS)
                page.wait_for_timeout(SETTLE_MS)
                pages.append(page)
                memory.append(server_memory_mib(server))
            alone = [t for n in range(SESSIONS) for t in edit_all([pages[n]], 8192 + 256 * n)]
            together = [t for n in range(ROUNDS) for t in edit_all(pages, 2048 + 256 * n)]
            after = server_memory_mib(server)
    finally:
        run.stop(server)
    print(
        json.dumps(
            {
                "sessions": SESSIONS,
                "one_edits": summary(alone),
                "all_edit_at_once": summary(together),
                "server_mib_first_session": round(memory[0]),
                "server_mib_a_further_session": round((memory[-1] - memory[0]) / (SESSIONS - 1), 1),
                "server_mib_after_edits": round(after),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
