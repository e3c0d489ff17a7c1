"""Headroom over a grid of two sizes of the job: real plans, one a cell."""

from dataclasses import dataclass

from planner.plan_types import Verdict
from ui.charts.gpu_bars import TONE
from ui.numbers import DASH, short_tokens, signed, whole
from ui.units import amount
from ui.words import Safe, Words, escaped


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


def fit_map(grid: FitGrid, words: Words) -> Safe:
    """A table of tinted cells with the signed headroom in each, a frame around the plan on the page.

    Args:
        grid: The plans.
        words: For what only a screen reader says: the map in words, the verdict of each cell.

    Returns:
        Sizes go up the side and lengths along the foot, as on a chart; a screen reader hears lengths as heads.
    """
    lengths = "".join(f'<th scope="col">{short_tokens(tokens)}</th>' for tokens in grid.columns)
    rows = "".join(_row(grid, i, words) for i in reversed(range(len(grid.rows))))
    widest = max(len(whole(size)) for size in grid.rows)
    return Safe(
        f'<table class="fit" style="--head:{widest + 2}ch"><caption><span class="sr">'
        f"{escaped(words('map.title'))}. {escaped(alternative(grid, words))}</span></caption>"
        f"<thead><tr><td></td>{lengths}</tr></thead><tbody>{rows}</tbody></table>"
    )


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
    return words.text(parts)


def _row(grid: FitGrid, i: int, words: Words) -> str:
    cells = "".join(
        _cell(cell, words, current=grid.current == (i, j)) for j, cell in enumerate(grid.cells[i])
    )
    return f'<tr><th scope="row">{whole(grid.rows[i])}</th>{cells}</tr>'


def _cell(cell: Cell, words: Words, *, current: bool) -> str:
    mark = ' aria-current="true"' if current else ""
    if cell.verdict is None:
        return f'<td class="m"{mark}>{DASH}</td>'
    said = f'<span class="sr"> {words.html(f"verdict.word.{cell.verdict.value}")}</span>'
    tone = "m" if cell.verdict is Verdict.UNKNOWN else TONE[cell.verdict]
    return f'<td class="{tone}"{mark}>{_text(cell)}{said}</td>'


def _text(cell: Cell) -> str:
    if cell.headroom_bytes is None:
        return DASH
    value = amount(cell.headroom_bytes)
    return signed(value, 1 if abs(value) < 20 else 0)
