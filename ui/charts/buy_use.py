"""The month by which each build has paid for itself, by use; what people say about it as a band."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ui.charts.base import bold, colored, finish
from ui.charts.buy_lines import DASHES
from ui.charts.drawing import Drawing
from ui.numbers import percent
from ui.tokens import LIGHT
from ui.words import Words

HEIGHT: Final = 260
SAID_MONTHS: Final = (12, 18)
"""The pay-back that articles give without a use."""
MOST_MONTHS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One build.

    Attributes:
        months: Share of use, and the month; shares at which it never pays back are left out.
        best: Drawn in the accent.
    """

    letter: str
    name: str
    months: tuple[tuple[float, int], ...]
    best: bool = False


def buy_use(curves: Sequence[Curve], use_frac: float, words: Words) -> Any:
    """Months by use, up to five years.

    Args:
        curves: One a build, at most four.
        use_frac: The use that the rest of the page counts with, marked.
        words: For names.

    Returns:
        A Plotly figure, 260 px high.
    """
    fig = Drawing()
    low, high = SAID_MONTHS
    fig.add_shape(
        type="rect", xref="paper", x0=0, x1=1, y0=low, y1=high, fillcolor=LIGHT["track"], line={"width": 0},
        layer="below",
    )  # fmt: skip
    fig.add_shape(
        type="line", yref="paper", x0=use_frac * 100, x1=use_frac * 100, y0=0, y1=1,
        line={"color": LIGHT["muted"], "width": 1, "dash": "dot"},
    )  # fmt: skip
    for dash, curve in zip(DASHES, curves, strict=False):
        color = LIGHT["accent"] if curve.best else LIGHT["muted"]
        shown = [(use, month) for use, month in curve.months if month <= MOST_MONTHS]
        if not shown:
            continue
        fig.add_scatter(
            x=[use * 100 for use, _ in shown],
            y=[month for _, month in shown],
            mode="lines",
            line={"color": color, "width": 2, "dash": dash},
            name=curve.letter,
            text=[_hover(curve, use, month, words) for use, month in shown],
            hovertemplate="%{text}<extra></extra>",
        )
        fig.add_annotation(
            x=shown[0][0] * 100, y=shown[0][1], xanchor="right", xshift=-5, showarrow=False, font={"size": 14},
            text=colored(curve.letter, LIGHT["accent"] if curve.best else LIGHT["text"], bold=True),
        )  # fmt: skip
    fig.add_annotation(
        x=0, xref="paper", y=(low + high) / 2, xanchor="left", xshift=4, showarrow=False, font={"size": 13},
        text=colored(words("buy.use_chart.said"), LIGHT["muted"]),
    )  # fmt: skip
    finish(fig, HEIGHT, margin={"l": 34, "r": 4, "t": 8, "b": 28})
    fig.update_xaxes(range=[0, 101], dtick=20, ticksuffix="\u00a0%")
    fig.update_yaxes(range=[0, MOST_MONTHS], dtick=12)
    return fig.figure()


def alternative(curves: Sequence[Curve], words: Words) -> str:
    """The figure in words."""
    said = [
        words(
            "buy.use_chart.alt_curve",
            letter=curve.letter,
            name=curve.name,
            least=percent(curve.months[0][0]),
            month=curve.months[-1][1],
        )
        if curve.months
        else words("buy.chart.alt_never", letter=curve.letter, name=curve.name)
        for curve in curves
    ]
    return words("buy.use_chart.alt", curves=words.clauses(said))


def _hover(curve: Curve, use: float, month: int, words: Words) -> str:
    head = bold(f"{curve.letter}  {curve.name}")
    return f"{head}<br>{colored(words('buy.use_chart.hover', use=percent(use), month=month), LIGHT['text'])}"
