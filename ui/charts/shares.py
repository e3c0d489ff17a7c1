"""Shares of one as bars, each with its name and its percentage above it."""

from collections.abc import Sequence
from typing import Any, Final

from ui.charts.base import BAR_WIDTH, bold, finish, label
from ui.charts.drawing import Drawing
from ui.numbers import percent
from ui.tokens import LIGHT
from ui.words import Words

ROW_PX: Final = 54

Bar = tuple[str, float, bool]
"""Name, share, whether it is the one in question."""


def shares(bars: Sequence[Bar], words: Words) -> Any:
    """Horizontal bars on a track of the whole.

    Args:
        bars: Top row first.
        words: For hover texts.

    Returns:
        A Plotly figure of 54 px a row.
    """
    fig = Drawing()
    rows = list(range(len(bars)))[::-1]
    for values, color, name in (
        ([1.0] * len(bars), [LIGHT["track"]] * len(bars), ""),
        (
            [share for _, share, _ in bars],
            [LIGHT["accent"] if own else LIGHT["muted"] for _, _, own in bars],
            words("requests.lengths.used"),
        ),
    ):
        fig.add_bar(
            x=values,
            y=rows,
            orientation="h",
            width=BAR_WIDTH,
            marker_color=color,
            name=name,
            hoverinfo="skip",
        )
    for row, (name, share, _) in zip(rows, bars, strict=True):
        label(fig, row, name, bold(percent(share)))
    finish(
        fig,
        ROW_PX * len(bars) + 8,
        rows=len(bars),
        barmode="overlay",
        margin={"l": 0, "r": 0, "t": 4, "b": 4},
    )
    fig.update_xaxes(range=[0, 1], visible=False)
    return fig.figure()


def alternative(bars: Sequence[Bar], words: Words) -> str:
    """The figure in words."""
    return words.clauses(
        words("requests.chart.share", name=name, share=percent(share)) for name, share, _ in bars
    )
