"""What all figures share: no side margins, no mode bar, no zoom, colours that the style sheet can swap."""

import math
from html import escape
from typing import Any, Final

import plotly.graph_objects as go

from ui.tokens import CLEAR, FONT, LIGHT

CONFIG: Final = {"displayModeBar": False}
LABEL_RISE: Final = 0.21
BAR_WIDTH: Final = 0.4


def new_figure() -> Any:
    """A figure without Plotly's default template, which Streamlit would change."""
    return go.Figure(layout={"template": None})


def finish(fig: Any, height: int, *, rows: int | None = None, **layout: object) -> Any:
    """Set what all figures share.

    Args:
        fig: The figure; changed and returned.
        height: Pixels.
        rows: Rows of labelled bars, at y = 0 .. rows - 1; None for other figures.
        **layout: Anything of Plotly's layout to set on top.
    """
    text = {"family": FONT, "size": 14, "color": LIGHT["text"]}
    fig.update_layout(
        height=height,
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        showlegend=False,
        hoverlabel={"bgcolor": LIGHT["panel"], "bordercolor": LIGHT["hairline"], "font": text},
        font=text,
        margin={"l": 0, "r": 0, "t": 4, "b": 26},
    )
    axis = {
        "gridcolor": LIGHT["hairline"],
        "showgrid": True,
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "tickfont": {"color": LIGHT["muted"], "size": 14},
        "fixedrange": True,
    }
    fig.update_xaxes(**axis)
    fig.update_yaxes(**axis)
    if rows:
        fig.update_yaxes(range=[-0.42, rows - 0.34], visible=False)
    return fig.update_layout(**layout)


def label(fig: Any, y: float, left: str, right: str, *, rise: float = LABEL_RISE) -> None:
    """Two texts above a bar, inside the plot: side margins stay zero, and a phone needs no other figure."""
    for x, anchor, text in ((0, "left", left), (1, "right", right)):
        fig.add_annotation(
            x=x,
            xref="paper",
            y=y + rise,
            xanchor=anchor,
            yanchor="bottom",
            xshift=-2 if x == 0 else 0,
            showarrow=False,
            text=text,
            font={"size": 14},
        )


def capacity_marks(fig: Any, xs: list[float], ys: list[float], hover: str) -> None:
    """A rule a little taller than each bar, on a halo so that it is seen on any colour."""
    for width, size, color in ((6.5, 13, LIGHT["background"]), (2.5, 16, LIGHT["text"])):
        line = {"width": width, "color": color}
        marker = {"symbol": "line-ns", "size": size, "line": line}
        fig.add_scatter(
            x=xs, y=ys, mode="markers", marker=marker, name="", hovertemplate=hover + "<extra></extra>"
        )


def colored(text: str, color: str, *, bold: bool = False) -> str:
    """Text of a figure in a colour; the text is escaped."""
    inner = f"<b>{escape(text)}</b>" if bold else escape(text)
    return f'<span style="color:{color}">{inner}</span>'


def bold(text: str) -> str:
    """Bold text of a figure; escaped."""
    return f"<b>{escape(text)}</b>"


def shortened(text: str, length: int) -> str:
    """At most `length` characters; a cut is shown."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def nice_step(span: float, most: int = 5) -> float:
    """A tick distance of 1, 2 or 5 times a power of ten that gives at most `most` ticks over `span`."""
    if span <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= most)
