"""Measurements under way on this machine that were started from a terminal: listed, and followed while they run."""

from typing import Final

import streamlit as st

from profiler.live import Live, listed
from profiler.report import Report
from ui import parts
from ui.language import current_words
from ui.measure import actions
from ui.measure.sizes import decimals_for, size
from ui.numbers import DASH, whole
from ui.words import Words

LOOK_EVERY_S: Final = 2.0
MOST_SHOWN: Final = 8


@st.fragment(run_every=LOOK_EVERY_S)
def draw_elsewhere() -> None:
    """A fragment that looks every two seconds; it draws nothing where nothing runs."""
    found = listed()
    if not found:
        return
    words = current_words()
    st.html(
        parts.section(words("measure.elsewhere.title"), words.count("measure.elsewhere.note", len(found)))
    )
    for live in found[:MOST_SHOWN]:
        _row(live, live.report(), words)


def _row(live: Live, report: Report | None, words: Words) -> None:
    with st.container(
        key=f"fixrow_live_{live.id}", horizontal=True, wrap=False, vertical_alignment="center", gap="small"
    ):
        name = words.html("measure.elsewhere.name", name=live.name or words("measure.elsewhere.unnamed"))
        figures = _figures(live, report, words)
        body = f'<div class="fix"><span>{name}</span><span></span><span class="s">{figures}</span></div>'
        st.html(body, width="stretch")
        st.button(
            words("measure.elsewhere.open"),
            key=f"measure_live_open_{live.id}",
            on_click=actions.look_at,
            args=(report,),
            disabled=report is None,
        )


def _figures(live: Live, report: Report | None, words: Words) -> str:
    way = words(f"measure.elsewhere.way.{live.way}")
    if report is None:
        return words.html("measure.elsewhere.nothing_yet", way=way, pid=live.pid)
    steps = report.memory_by_step
    last = steps[-1] if steps else None
    held = None
    if last is not None:
        held = last.peak_reserved_bytes or last.peak_allocated_bytes or last.resident_bytes
    held = held or report.readings.process_peak_bytes or report.readings.peak_bytes
    shown = DASH if held is None else words("measure.nvml.size", size=size(held, decimals_for(held)))
    step = whole(last.step) if last is not None else DASH
    return words.html("measure.elsewhere.figures", way=way, pid=live.pid, step=step, size=shown)
