"""Loading, saving and what lies on the host: a folded part of the Plan page."""

from typing import Final

import streamlit as st

from planner.plan_types import Plan
from planner.state_moves import METHODS, Loading, Saving, interval, loading, saving
from planner.units import GB
from ui import answers, parts
from ui.folded import folded
from ui.numbers import DASH, gib1
from ui.words import Words

MINUTE_S: Final = 60
FIRST_SPEED_GB_PER_S: Final = 2.0
FIRST_HOURS: Final = 100.0


@st.fragment
def draw_moves(plan: Plan, words: Words) -> None:
    """The part; its two inputs change nothing but the interval.

    Args:
        plan: The answer on the page.
        words: The language.
    """
    box = folded("moves", words)
    if box is None:
        return
    with box:
        st.html(parts.section(words("moves.host.title"), words("moves.host.note")))
        st.html(f'<div class="p">{_host(plan, words)}</div>')
        st.html(parts.section(words("moves.load.title"), words("moves.load.note")))
        st.html(_loading_table(plan, words))
        saved = saving(plan, answers.tables())
        if saved is not None:
            st.html(parts.section(words("moves.save.title"), words("moves.save.note")))
            st.html(f'<div class="p">{_saved(saved, words)}</div>')
            _interval(saved, words)


def _host(plan: Plan, words: Words) -> str:
    if not plan.host.memory_bytes and not plan.host.nvme_bytes:
        return words.html("moves.host.nothing")
    key = "moves.host.unified" if plan.host.unified else "moves.host.each"
    said = [words.html(key, gib=gib1(plan.host.memory_bytes))]
    if plan.host.nvme_bytes:
        said.append(words.html("moves.host.disk", gib=gib1(plan.host.nvme_bytes)))
    return words.sentences(said)


def _loading_table(plan: Plan, words: Words) -> str:
    asked = loading(plan, answers.tables()).method
    rows = [_loading_row(loading(plan, answers.tables(), method), words, asked=asked) for method in METHODS]
    head = [words(f"moves.load.{name}") for name in ("method", "files", "process", "card")]
    return parts.table(head, rows, name=words("moves.load.title"))


def _loading_row(found: Loading, words: Words, *, asked: str) -> list[str]:
    name = words(f"moves.method.{found.method}")
    shown = words("moves.load.asked", name=name) if found.method == asked else name
    return [
        shown,
        gib1(found.checkpoint_bytes),
        gib1(found.host_bytes_per_process),
        gib1(found.device_peak_bytes),
    ]


def _saved(saved: Saving, words: Words) -> str:
    return words.html(
        "moves.save.said",
        disk=gib1(saved.disk_bytes),
        gathered=gib1(saved.gathered_host_bytes),
        divided=gib1(saved.divided_host_bytes),
        weights=gib1(saved.weights_only_bytes),
    )


def _interval(saved: Saving, words: Words) -> None:
    """Two assumptions of the reader's, and how often to save under them."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        speed = st.number_input(
            words("moves.save.speed"), min_value=0.01, max_value=1000.0, value=FIRST_SPEED_GB_PER_S, width=180
        )
        hours = st.number_input(
            words("moves.save.hours"), min_value=0.1, max_value=100_000.0, value=FIRST_HOURS, width=180
        )
    if not saved.disk_bytes:
        st.html(f'<div class="p m">{DASH}</div>')
        return
    found = interval(saved.disk_bytes, speed * GB, hours)
    body = words.html(
        "moves.save.every",
        minutes=f"{found.seconds / MINUTE_S:,.0f}",
        seconds=f"{found.save_s:,.1f}",
        lost=f"{found.lost_frac:.1%}".replace("%", " %"),
    )
    st.html(f'<div class="p">{body}</div>')
