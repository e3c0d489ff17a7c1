"""How long an edit takes to show in a browser: `python -m benchmarks.browser_latency`.

The Plan page and a bare page (one number field, one bar chart of the same size) are driven in turn in one Chromium, so
that both meet the same machine. Printed: median and 95th percentile from the key press to the redrawn bars.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Final

from playwright.sync_api import sync_playwright

import run
from tests import chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

EDITS: Final = 30
WAIT_MS: Final = 60_000
BARS: Final = ".barlayer path"
BARE_PAGE: Final = """
import plotly.graph_objects as go
import streamlit as st

size = st.number_input("Sequence", value=1, step=1)
figure = go.Figure([go.Bar(y=list(range(6)), x=[size + i + j for i in range(6)], orientation="h") for j in range(8)])
st.plotly_chart(figure.update_layout(barmode="stack", height=350), key="gpu_bars", theme=None)
"""


@contextmanager
def served(script: Path) -> "Iterator[str]":
    """Address of a script, served as the page is."""
    port = run.any_free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port)]
    server = subprocess.Popen(command, cwd=run.ROOT, stdout=subprocess.DEVNULL)
    try:
        run.wait_until_healthy(server, run.page_url(port))
        yield run.page_url(port)
    finally:
        run.stop(server)


def times_of_edits(page: "Page", url: str, value: Callable[[int], int]) -> list[float]:
    """Seconds from Enter to other bars, for `EDITS` edits of the field called Sequence."""
    page.goto(url)
    page.wait_for_selector(BARS, timeout=WAIT_MS)
    page.wait_for_timeout(2000)
    field = page.get_by_label("Sequence", exact=True)
    found = []
    for number in range(EDITS):
        field.fill(str(value(number)))
        before = _bars(page)
        start = time.perf_counter()
        field.press("Enter")
        page.wait_for_function(
            f"old => [...document.querySelectorAll('{BARS}')].map(p => p.getAttribute('d')).join() !== old",
            arg=before,
            timeout=WAIT_MS,
        )
        found.append(time.perf_counter() - start)
        page.wait_for_timeout(300)
    return found


def _bars(page: "Page") -> str:
    return ",".join(page.eval_on_selector_all(BARS, "paths => paths.map(p => p.getAttribute('d'))"))


def summary(times: list[float]) -> dict[str, float]:
    """Median and 95th percentile in milliseconds."""
    cut = quantiles(times, n=20, method="inclusive")
    return {"median_ms": round(cut[9] * 1000), "p95_ms": round(cut[18] * 1000)}


def main() -> None:
    """Drive both pages and print one JSON object."""
    path = chromium.find()
    if path is None:
        raise SystemExit("no Chromium; python -m tests.chromium fetches one")
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare.py"
        bare.write_text(BARE_PAGE, encoding="utf-8")
        with (
            served(run.ROOT / "app.py") as ours,
            served(bare) as plain,
            sync_playwright() as playwright,
            playwright.chromium.launch(executable_path=path) as browser,
        ):
            page = browser.new_page(viewport={"width": 1440, "height": 1000})
            base = times_of_edits(page, plain, lambda n: n + 2)
            full = times_of_edits(page, ours, lambda n: 4096 + 256 * (n + 1))
    print(json.dumps({"edits": EDITS, "plan_page": summary(full), "bare_page": summary(base)}, indent=2))


if __name__ == "__main__":
    main()
