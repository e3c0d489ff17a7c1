"""What computing activations again saves and costs here. Closed until somebody opens it."""

import json
from functools import lru_cache
from typing import Final

import streamlit as st

from planner.recompute import Point, curve
from planner.throughput.training_speed import training_speed
from ui import answers, parts, verdict
from ui.answers import answer
from ui.charts.recompute_curve import alternative, point_name, recompute_curve
from ui.document import Document, canonical
from ui.folded import folded
from ui.language import current_words
from ui.numbers import DASH, gib1
from ui.pages.frame import plot
from ui.words import Safe, Words

REMEMBERED: Final = 32


@st.fragment
def draw_recompute(document: Document) -> None:
    """The section.

    Args:
        document: A question that trains and can be planned.
    """
    words = current_words()
    box = folded("recompute", words)
    plan = answer(document).plan
    if box is None or plan is None:
        return
    with box:
        points = _points(canonical(document))
        st.html(f'<div class="p m">{words.html("recompute.note")}</div>')
        timed = [point for point in points if point.step_s is not None]
        if timed:
            figure = recompute_curve(timed, plan.worst.usable_bytes, words)
            plot(figure, "recompute_curve", alternative(timed, words))
        head = [words(f"recompute.head.{name}") for name in ("keeps", "activations", "needs", "fits", "time")]
        rows = [row(point, words) for point in points]
        st.html(parts.table(head, rows, name=words("recompute.title"), left=(3,)))
        if training_speed(plan, answers.tables()).step_time_s is None:
            st.html(f'<div class="p m">{words.html("recompute.no_time")}</div>')


@lru_cache(maxsize=REMEMBERED)
def _points(text: str) -> tuple[Point, ...]:
    found = answer(json.loads(text)).plan
    return () if found is None else curve(found, answers.tables())


def row(point: Point, words: Words) -> list[str]:
    """One amount of recomputation."""
    name = point_name(point, words)
    way = words.html(f"recompute.way.{point.way}")
    time = DASH if point.step_s is None else words("recompute.time", seconds=f"{point.step_s:.3g}")
    return [
        Safe(f'<b>{words.html("recompute.keeps", name=name)}</b> <span class="m">{way}</span>'),
        gib1(point.activation_bytes),
        gib1(point.peak_bytes),
        verdict.tag(point.verdict, words),
        time,
    ]
