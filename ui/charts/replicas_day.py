"""A day of traffic and the replicas that answer it, both counted in replicas."""

from collections.abc import Sequence
from typing import Any, Final

from planner.requests.replicas import Moment
from ui.charts.base import colored, finish, nice_step
from ui.charts.drawing import Drawing
from ui.tokens import LIGHT
from ui.words import Words

HEIGHT: Final = 280
HOUR_S: Final = 3600
POINTS: Final = 288
"""Moments that are drawn: one in five minutes of a day."""


def replicas_day(moments: Sequence[Moment], capacity_per_s: float, words: Words) -> Any:
    """Traffic as an area, replicas as steps.

    Args:
        moments: The day.
        capacity_per_s: Requests a second of one replica: traffic over it is the replicas that are needed.
        words: For names.

    Returns:
        A Plotly figure; the foot counts hours.
    """
    fig = Drawing()
    drawn = moments[:: max(1, len(moments) // POINTS)]
    hours = [moment.time_s / HOUR_S for moment in drawn]
    needed = [moment.requests_per_s / capacity_per_s for moment in drawn]
    fig.add_scatter(
        x=hours, y=needed, mode="lines", fill="tozeroy", fillcolor=LIGHT["track"],
        line={"color": LIGHT["muted"], "width": 1.5}, name=words("requests.chart.load"),
        hovertemplate=words("requests.chart.load_hover") + "<extra></extra>",
    )  # fmt: skip
    fig.add_scatter(
        x=hours, y=[moment.replicas for moment in drawn], mode="lines",
        line={"color": LIGHT["accent"], "width": 2, "shape": "hv"}, name=words("requests.chart.replicas"),
        hovertemplate=words("requests.chart.replicas_hover") + "<extra></extra>",
    )  # fmt: skip
    for rank, (key, color) in enumerate((("replicas", LIGHT["accent"]), ("load", LIGHT["muted"]))):
        fig.add_annotation(
            x=0,
            xref="paper",
            y=1,
            yref="paper",
            xanchor="left",
            yanchor="bottom",
            yshift=24 - 22 * rank,
            showarrow=False,
            text=colored(f"\u2501 {words(f'requests.chart.{key}')}", color),
            font={"size": 14},
        )
    top = max([*needed, *(moment.replicas for moment in drawn), 1]) * 1.05
    last = (drawn[-1].time_s / HOUR_S) if drawn else 1
    finish(fig, HEIGHT, margin={"l": 34, "r": 4, "t": 54, "b": 28})
    fig.update_xaxes(range=[0, max(last, 1)], dtick=6, ticksuffix=words("requests.chart.hour"))
    fig.update_yaxes(range=[0, top], dtick=max(1, nice_step(top)))
    return fig.figure()


def alternative(moments: Sequence[Moment], capacity_per_s: float, words: Words) -> str:
    """The figure in words."""
    most = max(moments, key=lambda moment: moment.replicas)
    return words(
        "requests.chart.day",
        most=most.replicas,
        hour=f"{most.time_s / HOUR_S:.0f}",
        least=min(moment.replicas for moment in moments),
        peak=f"{max(moment.requests_per_s for moment in moments) / capacity_per_s:.1f}",
    )
