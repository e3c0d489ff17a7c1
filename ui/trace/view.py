"""A traced step on the page: the sentence, five figures, the timeline, the tables, the cards, the largest tensors."""

import json
from collections.abc import Iterable, Sequence
from typing import Final

import streamlit as st

from planner.ledger import Category, Phase
from profiler.report import StorageNote
from profiler.trace.answer import Point, answer
from profiler.trace.text import as_json
from ui import parts
from ui.charts import trace_timeline
from ui.charts.base import CONFIG
from ui.measure.result import total
from ui.measure.sizes import decimals_for, gap, part, size
from ui.names import card_name
from ui.numbers import DASH, TIMES, percent, whole
from ui.tokens import variable
from ui.trace import wording
from ui.trace.result import Result
from ui.words import Safe, Words

PHASE: Final = "trace_phase"


def draw_result(result: Result, words: Words) -> None:
    """The whole view of a trace."""
    st.html(f'<p class="why">{wording.tag(result, words)}&ensp;{wording.summary(result, words)}</p>')
    st.html(parts.strip(wording.strip(result, words)))
    with st.container(key="split_trace"):
        with st.container(key="trace_course", gap="xsmall"):
            own = result.own
            draw_timeline(
                result.answer.timeline,
                words,
                key="trace_timeline",
                title=words("trace.chart.title"),
                capacity_bytes=result.capacity_bytes,
                stop_event=own.stop.at.event if own is not None and own.stop is not None else None,
            )
        with st.container(key="trace_parts", gap="xsmall"):
            _parts(result, words)
    with st.container(key="split_trace_rows"):
        with st.container(key="trace_phases", gap="xsmall"):
            _phases(result, words)
        with st.container(key="trace_cards", gap="xsmall"):
            _cards(result, words)
    _largest(result, words)


def draw_timeline(
    points: Sequence[Point],
    words: Words,
    *,
    key: str,
    title: str,
    capacity_bytes: int | None = None,
    stop_event: int | None = None,
) -> None:
    """The timeline with its legend."""
    phased = any(point.phase for point in points)
    st.html(parts.section(title, words("trace.chart.note" if phased else "trace.chart.note_recorded")))
    st.plotly_chart(
        trace_timeline.timeline(points, words, capacity_bytes=capacity_bytes, stop_event=stop_event),
        key=key,
        alt=trace_timeline.alternative(points, words),
        theme=None,
        config=CONFIG,
    )
    st.html(legend(trace_timeline.layers(points), words, stops=stop_event is not None))


def legend(names: Iterable[str], words: Words, *, stops: bool) -> Safe:
    """The parts of the timeline, then its line and its mark."""
    items = [f"<span>{part_swatch(name)}{escaped_name(name, words)}</span>" for name in names]
    items.append(f'<span><i class="dots"></i>{words.html("trace.chart.reserved")}</span>')
    items.append(f'<span><i class="peak"></i>{words.html("trace.chart.peak_mark")}</span>')
    if stops:
        items.append(f'<span><i class="stop"></i>{words.html("trace.chart.stop")}</span>')
    return Safe(f'<div class="leg">{"".join(items)}</div>')


def part_swatch(name: str) -> Safe:
    """The colour of a part, grey for what has no owner; never hatched, as nothing here is estimated."""
    color = variable(Category(name)) if name in set(Category) else "--muted"
    pale = ";opacity:.5" if name in trace_timeline.PALE else ""
    return Safe(f'<i class="sw" style="--part:var({color}){pale}"></i>')


def escaped_name(name: str, words: Words) -> Safe:
    """A part's name as HTML."""
    return Safe(wording.part_name(name, words))


def _parts(result: Result, words: Words) -> None:
    """By category in a phase of the user's choice, the fullest at first; then what the allocator holds beside."""
    title = words("trace.parts.title")
    st.html(parts.section(title, words("trace.parts.note")))
    names = [compared.phase.value for compared in result.phases]
    chosen = st.segmented_control(
        words("trace.parts.phase"),
        names,
        default=result.peak.value,
        required=True,
        format_func=lambda name: words(f"phase.{name}.short"),
        key=f"{PHASE}_{result.peak.value}",
        label_visibility="collapsed",
    )
    phase = Phase(chosen) if chosen in names else result.peak
    decimals = decimals_for(result.allocated.measured_bytes)
    pairs = result.parts(phase)
    rows = [
        [
            Safe(f"{part_swatch(pair.name)}{escaped_name(pair.name, words)}"),
            part(pair.predicted_bytes, decimals),
            part(pair.measured_bytes, decimals),
            gap(pair.gap_bytes, decimals),
        ]
        for pair in pairs
    ]
    rows += _sums(result, phase, decimals, words)
    head = [words(f"trace.parts.{name}") for name in ("part", "predicted", "traced", "gap")]
    st.html(parts.table(head, rows, name=title))


def _sums(result: Result, phase: Phase, decimals: int, words: Words) -> list[list[str]]:
    """Allocated, then what the allocator holds beside it, then both together."""
    allocated = total(result.parts(phase))
    figures = result.answer.figures(phase.value)
    traced = figures.peak_reserved_bytes if figures is not None else None
    predicted = wording.predicted_reserved(result, phase)
    rows = [_sum_row("allocated", allocated.predicted_bytes, allocated.measured_bytes, decimals, words)]
    if traced is not None and allocated.predicted_bytes is not None and allocated.measured_bytes is not None:
        more, held = predicted - allocated.predicted_bytes, traced - allocated.measured_bytes
        cells = (part(more, decimals), part(held, decimals), gap(more - held, decimals))
        rows.append([words("trace.parts.beside"), *cells])
        rows.append(_sum_row("reserved", predicted, traced, decimals, words))
    return rows


def _sum_row(name: str, predicted: int | None, traced: int | None, decimals: int, words: Words) -> list[str]:
    difference = None if predicted is None or traced is None else predicted - traced
    cells = (
        words(f"trace.parts.{name}"), size(predicted, decimals), size(traced, decimals), gap(difference, decimals),
    )  # fmt: skip
    return [Safe(f"<b>{cell}</b>") for cell in cells]


def _phases(result: Result, words: Words) -> None:
    title = words("trace.phases.title")
    st.html(parts.section(title, words("trace.phases.note")))
    names = ("phase", "predicted", "traced", "error", "reserved", "largest")
    head = [words(f"trace.phases.{name}") for name in names]
    st.html(parts.table(head, wording.phase_rows(result, words), name=title, left=(5,)))


def _cards(result: Result, words: Words) -> None:
    title = words("trace.cards.title")
    st.html(parts.section(title, words("trace.cards.note")))
    head = [words(f"trace.cards.{name}") for name in ("card", "usable", "outcome")]
    rows = []
    for row in result.cards:
        name = card_name(row.card.name)
        shown = words("trace.cards.own", card=name) if row.is_own else name
        rows.append([shown, size(row.card.usable_bytes, 1), wording.card_outcome(row, words)])
    st.html(parts.table(head, rows, name=title, wide=(2,)))
    own = result.own
    if own is not None and own.stop is not None:
        st.html(f'<div class="p m">{wording.stop_text(own, result, words)}</div>')


def _largest(result: Result, words: Words) -> None:
    fullest = result.answer.fullest
    if fullest is None or not fullest.largest:
        return
    share = sum(note.bytes for note in fullest.largest) / max(fullest.peak_allocated_bytes, 1)
    title = words("trace.largest.title", n=len(fullest.largest), share=percent(share))
    with st.expander(title, key="trace_largest"):
        names = ("size", "what", "module", "op", "shape", "made_in")
        head = [words(f"measure.more.{name}") for name in names]
        rows = [_storage_row(note, words) for note in fullest.largest]
        st.html(parts.table(head, rows, name=title, left=(1, 2, 3, 4, 5)))


def _storage_row(note: StorageNote, words: Words) -> list[str]:
    made_in = f"phase.{note.made_in}.name"
    shape = f" {TIMES} ".join(map(whole, note.shape))
    return [
        size(note.bytes, decimals_for(note.bytes)),
        Safe(f"{part_swatch(Category(note.category).value)}{escaped_name(note.category, words)}"),
        note.module or DASH,
        note.op.removeprefix("aten::") or DASH,
        f"{shape} {note.dtype}".strip() or DASH,
        words(made_in) if words.has(made_in) else DASH,
    ]


def download(result: Result, words: Words) -> None:
    """The answer as the command line writes it."""

    def data() -> str:
        seen = answer(result.trace, result.settings, result.capacity_bytes)
        return json.dumps(as_json(result.trace, seen, result.capacity_bytes), indent=1)

    st.download_button(
        words("trace.download"),
        data=data,
        file_name="headroom-trace.json",
        mime="application/json",
        key="trace_download",
        type="tertiary",
        on_click="ignore",
    )
