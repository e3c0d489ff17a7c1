"""The ranks of a job side by side: bars of what each held, a table of times, the slowest and the fullest named."""

from typing import Any, Final

import streamlit as st

from profiler.findings import fullest, slowest
from profiler.report import Report
from profiler.report_parts import RankFigures
from ui import parts
from ui.charts.base import BAR_WIDTH, CONFIG, finish, label, new_figure, nice_step
from ui.measure.sizes import decimals_for, size
from ui.numbers import DASH, percent, whole
from ui.tokens import LIGHT
from ui.units import amount
from ui.words import Safe, Words

ROW_HEIGHT: Final = 40
MOST_BARS: Final = 16
"""More ranks than this are in the table only, below the fullest ones."""


def draw_ranks(report: Report, words: Words) -> None:
    """The section; nothing where one process ran alone."""
    if not report.ranks:
        return
    title = words("measure.ranks.title")
    st.html(parts.section(title, words.count("measure.ranks.note", len(report.ranks))))
    st.html(f'<div class="p">{words.sentences(_extremes(report, words))}</div>')
    shown = sorted(report.ranks, key=lambda rank: -(held(rank) or 0))[:MOST_BARS]
    shown.sort(key=lambda rank: rank.rank)
    if any(held(rank) for rank in shown):
        st.plotly_chart(
            rank_bars(shown, words),
            key="measure_ranks",
            alt=alternative(shown, words),
            theme=None,
            config=CONFIG,
        )
    names = ("rank", "where", "outcome", "allocated", "reserved", "device", "host", "step", "talk")
    head = [words(f"measure.ranks.{name}") for name in names]
    rows = [_row(rank, words) for rank in report.ranks]
    st.html(parts.table(head, rows, name=title, left=(1, 2)))


def held(rank: RankFigures) -> int | None:
    """What a rank held at most, by the outermost counter it has."""
    return rank.peak_reserved_bytes or rank.peak_allocated_bytes or rank.resident_peak_bytes


def _extremes(report: Report, words: Words) -> list[Safe]:
    full, slow = fullest(report), slowest(report)
    said = []
    if full is not None and held(full):
        said.append(
            words.html("measure.ranks.fullest", rank=whole(full.rank), size=_sized(held(full), words))
        )
    if slow is not None:
        time = words("measure.duration.seconds", n=f"{slow.step_s or 0:.3f}")
        said.append(words.html("measure.ranks.slowest", rank=whole(slow.rank), time=time))
    return said


def _sized(size_bytes: int | None, words: Words) -> str:
    return words("measure.nvml.size", size=size(size_bytes, decimals_for(size_bytes)))


def _row(rank: RankFigures, words: Words) -> list[str]:
    talk = rank.communication.frac if rank.communication is not None else None
    outcome = words(f"measure.ranks.is.{rank.outcome}")
    return [
        whole(rank.rank),
        " ".join(filter(None, (rank.host, rank.device_name))) or DASH,
        words("measure.ranks.because", outcome=outcome, detail=rank.detail) if rank.detail else outcome,
        _cell(rank.peak_allocated_bytes),
        _cell(rank.peak_reserved_bytes),
        _cell(rank.device_peak_bytes),
        _cell(rank.resident_peak_bytes),
        DASH if rank.step_s is None else words("measure.duration.seconds", n=f"{rank.step_s:.3f}"),
        DASH if talk is None else percent(talk),
    ]


def _cell(size_bytes: int | None) -> str:
    return size(size_bytes, decimals_for(size_bytes))


def rank_bars(ranks: list[RankFigures], words: Words) -> Any:
    """The figure, 40 px a rank, on one axis from zero.

    Args:
        ranks: In the order drawn, first one on top.
        words: For the labels.
    """
    fig = new_figure()
    sizes = [amount(held(rank) or 0) for rank in ranks]
    most = max(sizes, default=0.0) or 1.0
    for place, (rank, value) in enumerate(zip(ranks, sizes, strict=True)):
        y = len(ranks) - 1 - place
        for width, color in ((most, LIGHT["track"]), (value, LIGHT["accent"])):
            fig.add_shape(
                type="rect",
                x0=0,
                x1=width,
                y0=y - BAR_WIDTH / 2,
                y1=y + BAR_WIDTH / 2,
                fillcolor=color,
                line={"width": 0},
                layer="below",
            )
        label(fig, y, words("measure.ranks.bar", rank=whole(rank.rank)), _sized(held(rank), words))
    step = nice_step(most)
    ticks = [step * n for n in range(int(most / step) + 1)]
    fig.update_xaxes(range=[0, most], tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    return finish(fig, len(ranks) * ROW_HEIGHT + 26, rows=len(ranks))


def alternative(ranks: list[RankFigures], words: Words) -> str:
    """The figure in words."""
    each = (
        words("measure.ranks.one_alt", rank=whole(rank.rank), size=_sized(held(rank), words))
        for rank in ranks
    )
    return words("measure.ranks.alt", parts=words.clauses(each))
