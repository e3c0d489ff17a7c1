"""Headroom over a grid of two sizes of the job: real plans, one a cell."""

from dataclasses import dataclass
from typing import Any

from planner.plan_types import Verdict
from ui.charts.base import finish
from ui.charts.drawing import Drawing
from ui.charts.gpu_bars import TONE
from ui.numbers import DASH, short_tokens, signed, whole
from ui.tokens import LIGHT, TINTS
from ui.units import amount
from ui.words import Words

LEVEL = {Verdict.DOES_NOT_FIT: -1, Verdict.TIGHT: 0, Verdict.FITS: 1}


@dataclass(frozen=True, slots=True)
class Cell:
    """One plan of the grid.

    Attributes:
        headroom_bytes: On the fullest card; None where the plan is refused or the card's size is not known.
        verdict: Of the whole job; None where the plan is refused.
    """

    headroom_bytes: int | None
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class FitGrid:
    """A grid of plans.

    Attributes:
        columns: Sequence lengths or contexts, in tokens.
        rows: Micro-batches or concurrent sequences.
        cells: By row, then by column.
        current: (row, column) of the plan on the page, None if it is off the grid.
    """

    columns: tuple[int, ...]
    rows: tuple[int, ...]
    cells: tuple[tuple[Cell, ...], ...]
    current: tuple[int, int] | None


def fit_map(grid: FitGrid) -> Any:
    """A heatmap of three tints with the signed headroom in each cell.

    Args:
        grid: The plans.

    Returns:
        A Plotly figure of 238 px.
    """
    fig = Drawing()
    fig.add_heatmap(
        z=[[LEVEL.get(cell.verdict) if cell.verdict else None for cell in row] for row in grid.cells],
        x=[short_tokens(tokens) for tokens in grid.columns],
        y=[whole(size) for size in grid.rows],
        xgap=2,
        ygap=2,
        showscale=False,
        zmin=-1,
        zmax=1,
        hoverinfo="skip",
        colorscale=[
            [level, tint]
            for tint, ends in zip(TINTS, ((0, 0.33), (0.33, 0.66), (0.66, 1)), strict=True)
            for level in ends
        ],
    )
    for i, row in enumerate(grid.cells):
        for j, cell in enumerate(row):
            fig.add_annotation(
                x=j, y=i, showarrow=False, text=_text(cell), font={"color": LIGHT[_tone(cell)]}
            )
    if grid.current is not None:
        i, j = grid.current
        frame = {"color": LIGHT["text"], "width": 2}
        fig.add_shape(type="rect", x0=j - 0.5, x1=j + 0.5, y0=i - 0.5, y1=i + 0.5, line=frame)
    widest = max(len(whole(size)) for size in grid.rows)
    finish(fig, 238, margin={"l": 10 + 8 * widest, "r": 0, "t": 4, "b": 26})
    fig.update_xaxes(showgrid=False, type="category")
    return fig.update_yaxes(showgrid=False, type="category", ticklabelstandoff=4).figure()


def alternative(grid: FitGrid, words: Words) -> str:
    """The map in words: the longest that fits in each row."""
    parts = []
    for size, row in zip(grid.rows, grid.cells, strict=True):
        fitting = [c for c, cell in zip(grid.columns, row, strict=True) if cell.verdict is Verdict.FITS]
        parts.append(
            words("chart.map_alt_row", size=whole(size), tokens=whole(max(fitting)))
            if fitting
            else words("chart.map_alt_none", size=whole(size))
        )
    return " ".join(parts)


def _text(cell: Cell) -> str:
    if cell.headroom_bytes is None:
        return DASH
    value = amount(cell.headroom_bytes)
    return signed(value, 1 if abs(value) < 20 else 0)


def _tone(cell: Cell) -> str:
    return "muted" if cell.verdict is None else TONE[cell.verdict]
