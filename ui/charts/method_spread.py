"""How the errors lie, a row a runtime and task with a band of its own: half of the runs, nine of ten, the band."""

from functools import lru_cache
from typing import Any, Final

from ui.charts.base import BAR_WIDTH, bold, finish, label
from ui.charts.drawing import Drawing
from ui.method.accuracy import quantile, with_own_band
from ui.method.published import Published, Runs
from ui.method.shares import share_text, signed_share
from ui.numbers import MINUS, whole
from ui.tokens import LIGHT
from ui.words import Words

ROW_HEIGHT: Final = 46
EDGE: Final = 0.6
"""The axis ends at 60 % to each side; what lies beyond is drawn at its end, and the hover tells it."""
TICKS: Final = (-0.5, -0.25, 0.0, 0.25, 0.5)
RISE: Final = 0.2


@lru_cache(maxsize=8)
def spread(score: Published, words: Words) -> Any:
    """The figure, made once for a score and a language; not to be changed.

    Returns:
        A Plotly figure of 46 px a row and 26 for the axis.
    """
    fig = Drawing()
    rows = with_own_band(score.runs)
    ys = [float(len(rows) - 1 - i) for i in range(len(rows))]
    for row, y in zip(rows, ys, strict=True):
        _band(fig, row, y)
    fig.add_shape(
        type="line",
        x0=0,
        x1=0,
        y0=-0.4,
        y1=len(rows) - 0.6,
        line={"color": LIGHT["muted"], "width": 1},
        layer="below",
    )
    _runs(fig, rows, ys, words)
    for row, y in zip(rows, ys, strict=True):
        middle = quantile(row.errors, 0.5)
        label(
            fig,
            y,
            f"{bold(words(f'runtime.{row.runtime}'))} {words(f'task.{row.task}.short')}",
            words("method.spread.row", n=whole(row.n), median=signed_share(middle)),
            rise=RISE,
        )
    finish(fig, ROW_HEIGHT * len(rows) + 26, rows=len(rows))
    ticks = {"tickvals": TICKS, "ticktext": [_tick(tick) for tick in TICKS]}
    return fig.update_xaxes(range=[-EDGE - 0.01, EDGE + 0.01], **ticks).figure()


def alternative(score: Published, words: Words) -> str:
    """The figure in words."""
    rows = words.clauses(
        words(
            "method.spread.alt_row",
            runtime=words(f"runtime.{row.runtime}"),
            task=words(f"task.{row.task}.name"),
            median=signed_share(quantile(row.errors, 0.5)),
            low=signed_share(quantile(row.errors, 0.05)),
            high=signed_share(quantile(row.errors, 0.95)),
        )
        for row in with_own_band(score.runs)
    )
    return words("method.spread.alt", rows=rows)


def clipped(error: float) -> float:
    """An error as far as the axis goes."""
    return max(-EDGE, min(EDGE, error))


def band_errors(row: Runs) -> tuple[float, float]:
    """The band as errors: it is of observed / predicted, an error is predicted / observed - 1."""
    return 1 / (row.high_frac or 1.0) - 1, 1 / (row.low_frac or 1.0) - 1


def _tick(value: float) -> str:
    if not value:
        return "0"
    return f"{'+' if value > 0 else MINUS}{abs(value) * 100:.0f}\u00a0%"


def _band(fig: Drawing, row: Runs, y: float) -> None:
    low, high = band_errors(row)
    fig.add_shape(
        type="rect",
        x0=clipped(low),
        x1=clipped(high),
        y0=y - BAR_WIDTH / 2,
        y1=y + BAR_WIDTH / 2,
        fillcolor=LIGHT["track"],
        line={"width": 0},
        layer="below",
    )


def _runs(fig: Drawing, rows: tuple[Runs, ...], ys: list[float], words: Words) -> None:
    """Nine of ten as a thin line, half as a bar, the middle one as a mark."""
    quantiles = [[quantile(row.errors, share) for share in (0.05, 0.25, 0.5, 0.75, 0.95)] for row in rows]
    hovers = [_hover(row, values, words) for row, values in zip(rows, quantiles, strict=True)]
    for width, first, last, color in ((2.0, 0, 4, "muted"), (9.0, 1, 3, "accent")):
        for y, values in zip(ys, quantiles, strict=True):
            fig.add_scatter(
                x=[clipped(values[first]), clipped(values[last])],
                y=[y, y],
                mode="lines",
                line={"color": LIGHT[color], "width": width},
                hoverinfo="skip",
            )
    for width, size, color in ((6.0, 12, "background"), (2.5, 14, "text")):
        fig.add_scatter(
            x=[clipped(values[2]) for values in quantiles],
            y=ys,
            mode="markers",
            marker={"symbol": "line-ns", "size": size, "line": {"width": width, "color": LIGHT[color]}},
            text=hovers,
            hovertemplate="%{text}<extra></extra>",
        )


def _hover(row: Runs, values: list[float], words: Words) -> str:
    low, high = band_errors(row)
    return words.html(
        "method.spread.hover",
        runtime=words(f"runtime.{row.runtime}"),
        task=words(f"task.{row.task}.name"),
        n=whole(row.n),
        half_low=signed_share(values[1]),
        half_high=signed_share(values[3]),
        low=signed_share(values[0]),
        high=signed_share(values[4]),
        band_low=signed_share(low),
        band_high=signed_share(high),
        median=share_text(row.median_abs_error),
    )
