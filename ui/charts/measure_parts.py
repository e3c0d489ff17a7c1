"""Predicted against measured, part by part: bars from zero on a track, both figures above each."""

import math
from typing import Any, Final

from planner.ledger import Category
from ui.charts.base import BAR_WIDTH, bold, colored, finish, label, new_figure, nice_step
from ui.measure.result import Pair, stands_out
from ui.numbers import MINUS, signed
from ui.tokens import CLEAR, LIGHT, PART_LIGHT
from ui.units import amount
from ui.words import Words

ROW_HEIGHT: Final = 46
ZERO_REACH: Final = 0.3
"""The zero rule reaches a little below each bar and never into the text above it."""

LEAST_SPAN_FRAC: Final = 0.02
"""The axis spans at least this share of the largest part: a rounding difference is no tall bar."""


def part_bars(pairs: tuple[Pair, ...], words: Words, decimals: int) -> Any:
    """The figure, 46 px a part.

    Args:
        pairs: The parts, first one on top.
        words: For names and hover texts.
        decimals: Of the sizes written.
    """
    fig = new_figure()
    rows = len(pairs)
    gaps = [amount(pair.gap_bytes or 0) for pair in pairs]
    largest = max((amount(pair.measured_bytes or 0) for pair in pairs), default=1.0)
    low, high = _range(gaps, largest)
    for y, pair, gap in zip(range(rows - 1, -1, -1), pairs, gaps, strict=True):
        fig.add_shape(
            type="rect",
            x0=low,
            x1=high,
            y0=y - BAR_WIDTH / 2,
            y1=y + BAR_WIDTH / 2,
            fillcolor=LIGHT["track"],
            line={"width": 0},
            layer="below",
        )
        _bar(fig, pair, y, gap, words)
        fig.add_shape(
            type="line",
            x0=0,
            x1=0,
            y0=y - ZERO_REACH,
            y1=y + BAR_WIDTH / 2,
            line={"width": 1, "color": LIGHT["muted"]},
        )
        label(fig, y, _name(pair, words), _figures(pair, pairs, decimals))
    ticks = _ticks(low, high)
    fig.update_xaxes(range=[low, high], tickvals=ticks, ticktext=[_tick(tick) for tick in ticks])
    return finish(fig, rows * ROW_HEIGHT + 26, rows=rows)


def alternative(pairs: tuple[Pair, ...], words: Words, decimals: int) -> str:
    """The figure in words."""
    parts = words.clauses(
        words(
            "measure.parts.part_alt",
            part=_name(pair, words),
            predicted=f"{amount(pair.predicted_bytes or 0):.{decimals}f}",
            measured=f"{amount(pair.measured_bytes or 0):.{decimals}f}",
        )
        for pair in pairs
    )
    return words("measure.parts.alt", parts=parts)


def _name(pair: Pair, words: Words) -> str:
    return words(f"category.{pair.name}")


def _figures(pair: Pair, pairs: tuple[Pair, ...], decimals: int) -> str:
    gap = signed(amount(pair.gap_bytes or 0), decimals)
    both = " → ".join(
        f"{amount(size or 0):,.{decimals}f}" for size in (pair.predicted_bytes, pair.measured_bytes)
    )
    written = colored(gap, LIGHT["tight"], bold=True) if stands_out(pair, pairs) else bold(gap)
    return f"{colored(both, LIGHT['muted'])}   {written}"


def _bar(fig: Any, pair: Pair, y: int, gap: float, words: Words) -> None:
    category = pair.category or Category.ALLOCATOR
    color = PART_LIGHT[category]
    pattern = None
    if category is Category.ALLOCATOR:
        pattern = {"shape": "/", "size": 5, "solidity": 0.35, "fgcolor": color, "bgcolor": CLEAR}
    fig.add_bar(
        y=[y],
        x=[gap],
        orientation="h",
        width=BAR_WIDTH,
        name=pair.name,
        marker={"color": color, "line": {"width": 0}, "pattern": pattern},
        hovertemplate=words("measure.parts.hover", part=_name(pair, words)) + "<extra></extra>",
    )


def _ticks(low: float, high: float) -> list[float]:
    step = nice_step(high - low, 4)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _tick(value: float) -> str:
    sign = "+" if value > 0 else MINUS if value < 0 else ""
    return f"{sign}{abs(value):.6g}"


def _range(gaps: list[float], largest: float) -> tuple[float, float]:
    low, high = min(0.0, *gaps, 0.0), max(0.0, *gaps, 0.0)
    span = max(high - low, largest * LEAST_SPAN_FRAC)
    low, high = low - 0.06 * span, high + 0.06 * span
    return (min(low, high - span), high) if abs(low) > abs(high) else (low, max(high, low + span))
