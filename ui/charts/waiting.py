"""What a way of batching carries against how long an answer takes."""

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any, Final

from planner.requests.queue import Waited
from ui.charts.base import colored, finish, nice_step
from ui.charts.drawing import Drawing
from ui.tokens import LIGHT
from ui.words import Words

HEIGHT: Final = 300
DASHES: Final = ("dot", "dash", "solid")
COLORS: Final = {"alone": LIGHT["muted"], "dynamic": LIGHT["text"], "continuous": LIGHT["accent"]}
MARKS: Final = {"alone": "\u2508", "dynamic": "\u254d", "continuous": "\u2501"}


def waiting(curves: Mapping[str, Sequence[Waited]], words: Words) -> Any:
    """One line a way of batching; a point is one rate of arrivals.

    Args:
        curves: Results by way, in order of rising arrivals.
        words: For names.

    Returns:
        A Plotly figure, requests a second against seconds on a logarithmic axis.
    """
    fig = Drawing()
    every = [point for points in curves.values() for point in points]
    low, high = min(each.mean_latency_s for each in every), max(each.mean_latency_s for each in every)
    right = max(each.throughput_per_s for each in every) * 1.05
    for (way, points), dash in zip(curves.items(), DASHES, strict=False):
        color = COLORS[way]
        name = words(f"requests.way.{way}")
        fig.add_scatter(
            x=[each.throughput_per_s for each in points],
            y=[each.mean_latency_s for each in points],
            mode="lines+markers",
            line={"color": color, "width": 2, "dash": dash},
            marker={"size": 7, "color": color},
            name=name,
            hovertemplate=words("requests.chart.hover", name=name) + "<extra></extra>",
        )
    for rank, way in enumerate(curves):
        fig.add_annotation(
            x=0,
            xref="paper",
            y=1,
            yref="paper",
            xanchor="left",
            yanchor="bottom",
            yshift=4 + 22 * rank,
            showarrow=False,
            text=colored(f"{MARKS[way]} {words(f'requests.way.{way}')}", COLORS[way]),
            font={"size": 14},
        )
    finish(fig, HEIGHT, margin={"l": 52, "r": 4, "t": 74, "b": 28})
    fig.update_xaxes(range=[0, right], dtick=nice_step(right), ticksuffix=words("requests.chart.per_s"))
    ticks = _ticks(low, high)
    fig.update_yaxes(
        type="log",
        range=[log10(low / 1.3), log10(high * 1.3)],
        tickvals=ticks,
        ticktext=[words("requests.seconds", value=f"{tick:g}") for tick in ticks],
    )
    return fig.figure()


def alternative(curves: Mapping[str, Sequence[Waited]], words: Words) -> str:
    """The figure in words: the most each carries, and how long an answer takes then."""
    said = []
    for way, points in curves.items():
        most = max(points, key=lambda each: each.throughput_per_s)
        said.append(
            words(
                "requests.chart.way",
                name=words(f"requests.way.{way}"),
                rate=f"{most.throughput_per_s:.2f}",
                seconds=f"{most.mean_latency_s:.2f}",
            )
        )
    return words.clauses(said)


def _ticks(low: float, high: float) -> list[float]:
    powers = range(floor(log10(low)), floor(log10(high)) + 1)
    factors = (1, 2, 5) if high / low < 200 else (1,)
    return [
        factor * 10.0**power
        for power in powers
        for factor in factors
        if low / 1.3 <= factor * 10.0**power <= high * 1.3
    ]
