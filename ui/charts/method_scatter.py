"""Predicted against measured, both logarithmic: a point a figure, the line where they are equal, nine of ten."""

import math
from functools import lru_cache
from html import escape
from textwrap import wrap
from typing import Any, Final

from planner.ledger import Category
from ui.charts.base import finish
from ui.charts.drawing import Drawing
from ui.method.accuracy import families, kind_of, median_abs_error, middle, points_of
from ui.method.published import Point, Published
from ui.method.shares import share_text, signed_share
from ui.numbers import percent, whole
from ui.tokens import LIGHT, PART_LIGHT
from ui.units import Unit, amount, current
from ui.words import Words

HEIGHT: Final = 360
MARGIN: Final = {"l": 46, "r": 8, "t": 8, "b": 26}
HOVER_WIDTH: Final = 46
SIZE: Final = 7
PALETTE: Final = (
    Category.WEIGHTS,
    Category.LOGITS,
    Category.OPTIMIZER,
    Category.KV_CACHE,
    Category.ACTIVATIONS,
    Category.GRADIENTS,
    Category.COMMUNICATION,
    Category.CONTEXT,
)
"""Colours of the sources, largest first. The strongest come first; every point has an outline as well."""
SYMBOLS: Final = {
    "allocated": "circle",
    "reserved": "diamond",
    "weights": "circle",
    "cache": "square",
    "working": "diamond",
}


def part_of(position: int) -> Category:
    """Whose colour a source has, by its rank."""
    return PALETTE[min(position, len(PALETTE) - 1)]


def scatter(score: Published, side: str, words: Words) -> Any:
    """The figure of one side, made once for a score, a language and a unit; not to be changed.

    Args:
        score: The published score.
        side: `training` (peaks) or `serving` (parts of a server's memory).
        words: For hover texts and the names of the axes.

    Returns:
        A Plotly figure of 360 px.
    """
    return _scatter(score, side, words, current())


@lru_cache(maxsize=16)
def _scatter(score: Published, side: str, words: Words, _unit: Unit) -> Any:
    fig = Drawing()
    points = points_of(score, side)
    low, high = _ends(points)
    _nine_of_ten(fig, points, low, high)
    fig.add_scatter(
        x=[low, high],
        y=[low, high],
        mode="lines",
        line={"color": LIGHT["text"], "width": 1.5},
        hoverinfo="skip",
    )
    for position, (name, members) in enumerate(families(points).items()):
        _family(fig, name or words("method.others"), members, PART_LIGHT[part_of(position)], words)
    finish(fig, HEIGHT, margin=MARGIN, hovermode="closest")
    ends = [math.log10(low), math.log10(high)]
    ticks = [10.0**power for power in range(math.ceil(ends[0]), math.floor(ends[1]) + 1)]
    axis = {"type": "log", "range": ends, "tickvals": ticks, "ticktext": [f"{tick:,g}" for tick in ticks]}
    fig.update_xaxes(**axis)
    fig.update_yaxes(**axis)
    _axis_names(fig, words)
    return fig.figure()


def alternative(score: Published, side: str, words: Words) -> str:
    """The figure in words."""
    points = points_of(score, side)
    low, high = middle(points)
    return words(
        f"method.scatter.{side}.alt",
        n=whole(len(points)),
        median=share_text(median_abs_error(points) or 0.0),
        low=percent(low),
        high=percent(high),
    )


def _ends(points: tuple[Point, ...]) -> tuple[float, float]:
    """One range for both axes, a little wider than the points."""
    sizes = [amount(float(value)) for point in points for value in (point.predicted, point.observed) if value]
    return min(sizes) / 1.4, max(sizes) * 1.4


def _nine_of_ten(fig: Drawing, points: tuple[Point, ...], low: float, high: float) -> None:
    below, above = middle(points)
    fig.add_scatter(
        x=[low, high, high, low],
        y=[low * above, high * above, high * below, low * below],
        mode="lines",
        line={"width": 0, "color": LIGHT["track"]},
        fill="toself",
        fillcolor=LIGHT["track"],
        hoverinfo="skip",
    )


def _family(fig: Drawing, name: str, points: list[Point], color: str, words: Words) -> None:
    inside = [point.inside_band is not False for point in points]
    fig.add_scatter(
        x=[amount(float(point.observed or 0)) for point in points],
        y=[amount(float(point.predicted or 0)) for point in points],
        mode="markers",
        name=name,
        marker={
            "size": SIZE,
            "symbol": [SYMBOLS[kind_of(point.metric)] for point in points],
            "color": [color if held else LIGHT["background"] for held in inside],
            "line": {
                "width": [0.75 if held else 1.75 for held in inside],
                "color": [LIGHT["muted"] if held else color for held in inside],
            },
        },
        text=[_hover(point, words) for point in points],
        hovertemplate="%{text}<extra></extra>",
    )


def _hover(point: Point, words: Words) -> str:
    lines = [f"<b>{escape(part)}</b>" for part in wrap(point.id, HOVER_WIDTH, break_on_hyphens=False)]
    lines.append(words.html(f"method.metric.{point.metric}"))
    lines.append(
        words.html(
            "method.scatter.hover",
            measured=f"{amount(float(point.observed or 0)):.3g}",
            predicted=f"{amount(float(point.predicted or 0)):.3g}",
            error=signed_share(point.error or 0.0),
        )
    )
    if point.inside_band is not None:
        lines.append(words.html(f"method.scatter.{'inside' if point.inside_band else 'outside'}"))
    lines += [escape(part) for part in wrap(point.source, HOVER_WIDTH)]
    return "<br>".join(lines)


def _axis_names(fig: Drawing, words: Words) -> None:
    for x, y, anchor, edge, key in (
        (1, 0, "right", "bottom", "measured"),
        (0, 1, "left", "top", "predicted"),
    ):
        fig.add_annotation(
            x=x,
            y=y,
            xref="paper",
            yref="paper",
            xanchor=anchor,
            yanchor=edge,
            xshift=-4 if x else 4,
            yshift=-2 if y else 2,
            showarrow=False,
            text=words.html(f"method.scatter.axis_{key}"),
            font={"size": 14, "color": LIGHT["muted"]},
        )
