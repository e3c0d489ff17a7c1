"""Bytes of the fullest card against the time of a step: what computing activations again buys."""

from collections.abc import Sequence
from typing import Any, Final

from planner.recompute import Point
from ui.charts.base import colored, finish, nice_step
from ui.charts.drawing import Drawing
from ui.numbers import gib1
from ui.tokens import LIGHT
from ui.units import amount, current
from ui.words import Words

HEIGHT: Final = 288
COLORS: Final = {"compiler": LIGHT["accent"], "layers": LIGHT["text"]}
DASHES: Final = {"compiler": "solid", "layers": "dot"}
MARKS: Final = {"compiler": "\u2501", "layers": "\u2508"}


def recompute_curve(points: Sequence[Point], usable_bytes: int | None, words: Words) -> Any:
    """One line a way; a point is one amount of recomputation, the mark what the card offers.

    Args:
        points: With a time.
        usable_bytes: Of the fullest card, None where it is not known.
        words: For names.

    Returns:
        A Plotly figure, size against seconds of a step.
    """
    fig = Drawing()
    right = max(amount(point.peak_bytes) for point in points)
    right = max(right, amount(usable_bytes or 0)) * 1.05
    top = max(point.step_s or 0.0 for point in points) * 1.1
    for rank, (way, color) in enumerate(COLORS.items()):
        own = [point for point in points if point.way == way]
        if not own:
            continue
        fig.add_scatter(
            x=[amount(point.peak_bytes) for point in own],
            y=[point.step_s for point in own],
            mode="lines+markers",
            line={"color": color, "width": 2, "dash": DASHES[way]},
            marker={"size": 7, "color": color},
            name=words(f"recompute.way.{way}"),
            customdata=[point_name(point, words) for point in own],
            hovertemplate=words("recompute.hover") + "<extra></extra>",
        )
        fig.add_annotation(
            x=0, xref="paper", y=1, yref="paper", xanchor="left", yanchor="bottom", yshift=4 + 22 * rank,
            showarrow=False, text=colored(f"{MARKS[way]} {words(f'recompute.way.{way}')}", color), font={"size": 14},
        )  # fmt: skip
    if usable_bytes is not None:
        mark = {"color": LIGHT["text"], "width": 2.5}
        fig.add_shape(
            type="line",
            x0=amount(usable_bytes),
            x1=amount(usable_bytes),
            y0=0,
            y1=1,
            yref="paper",
            line=mark,
        )
    finish(fig, HEIGHT, margin={"l": 52, "r": 4, "t": 52, "b": 28})
    fig.update_xaxes(range=[0, right], dtick=nice_step(right), ticksuffix=f" {current()}")
    fig.update_yaxes(range=[0, top], dtick=nice_step(top), ticksuffix=words("recompute.second"))
    return fig.figure()


def alternative(points: Sequence[Point], words: Words) -> str:
    """The figure in words: both ends of each way."""
    said = []
    for way in COLORS:
        own = [point for point in points if point.way == way]
        if own:
            first, last = own[0], min(own, key=lambda point: point.peak_bytes)
            said.append(
                words(
                    "recompute.alt",
                    way=words(f"recompute.way.{way}"),
                    most=gib1(first.peak_bytes), fastest=f"{first.step_s:.3g}",
                    least=gib1(last.peak_bytes), slowest=f"{last.step_s:.3g}",
                )
            )  # fmt: skip
    return words.clauses(said)


def point_name(point: Point, words: Words) -> str:
    """What a point keeps."""
    if point.kept_frac is not None:
        return words("recompute.point.share", share=f"{point.kept_frac:.0%}".replace("%", "\u00a0%"))
    if not point.every:
        return words("recompute.point.none")
    return words("recompute.point.all") if point.every == 1 else words("recompute.point.every", k=point.every)
