"""An hour's price against headroom: what a dollar more an hour buys in memory."""

from collections.abc import Sequence
from math import log10
from typing import Any, Final

from ui.charts.base import bold, finish, new_figure, nice_step
from ui.charts.best_line import HEIGHT, TOP, Labels, Look, add_points, hover, log_share, round_prices
from ui.cost.money import cards_text, job_text, usd, usd_cents
from ui.cost.rows import Row
from ui.numbers import gib1, signed_gib
from ui.units import amount, current
from ui.words import Words

LEFT: Final = 46
BOTTOM: Final = 28
LABELS: Final[Labels[Row]] = Labels(width=0.36, right_half=0.62, bottom=BOTTOM)


def cost_frontier(others: Sequence[Row], best: Sequence[Row], words: Words) -> Any:
    """A scatter with the line of rows that none beats on both price and room.

    Args:
        others: Rows that fit and are not on the line.
        best: Rows on the line, cheapest first.
        words: For hover texts.

    Returns:
        A Plotly figure, 288 px high, prices on a logarithmic axis.
    """
    rows = (*others, *best)
    fig = new_figure()
    _points(fig, others, words, on_line=False)
    _points(fig, best, words, on_line=True)
    low, high, right = _span(rows)
    for row, to_left in _labelled(best, low, high, right):
        fig.add_annotation(
            x=_x(row),
            y=log10(_y(row)),
            xanchor="right" if to_left else "left",
            xshift=-9 if to_left else -4,
            yshift=6 if to_left else -14,
            showarrow=False,
            text=f"{job_text(row)}  {bold(usd(_y(row)))}",
            font={"size": 14},
        )
    finish(fig, HEIGHT, margin={"l": LEFT, "r": 4, "t": TOP, "b": BOTTOM})
    fig.update_xaxes(range=[0, right], dtick=nice_step(right, 6), ticksuffix=f" {current()}")
    ticks = round_prices(low, high)
    fig.update_yaxes(
        type="log",
        range=[log10(low), log10(high)],
        tickvals=ticks,
        ticktext=[f"${tick:,g}" for tick in ticks],
    )
    return fig


def alternative(rows: Sequence[Row], best: Sequence[Row], words: Words) -> str:
    """The figure in words."""
    if not best:
        return words("cost.chart.alt_none", n=len(rows))
    listed = words.clauses(
        words(
            "cost.chart.alt_point", cards=job_text(row), usd=usd(_y(row)), gib=gib1(row.headroom_bytes or 0)
        )
        for row in best
    )
    return words("cost.chart.alt", n=len(rows), points=listed)


def _points(fig: Any, rows: Sequence[Row], words: Words, *, on_line: bool) -> None:
    look = Look(
        name=words("cost.chart.line" if on_line else "cost.chart.other"),
        hovers=[_hover(row, words) for row in rows],
        on_line=on_line,
        size=8,
        edge=1.5,
    )
    add_points(fig, [_x(row) for row in rows], [_y(row) for row in rows], look)


def _hover(row: Row, words: Words) -> str:
    quote = row.quote
    head = "" if row.gpu is None or row.rented is None else cards_text(row.rented.used, row.gpu)
    price = words("cost.chart.hover", usd=usd_cents(_y(row)), gib=signed_gib(row.headroom_bytes or 0))
    return hover(head, (quote.provider, quote.name, quote.region), price)


def _x(row: Row) -> float:
    return amount(row.headroom_bytes or 0)


def _y(row: Row) -> float:
    return row.usd_per_hour or 0.0


def _span(rows: Sequence[Row]) -> tuple[float, float, float]:
    """Lowest and highest price of the axis, and the most headroom."""
    prices = [_y(row) for row in rows] or [1.0]
    return min(prices) / 1.6, max(prices) * 1.25, max([_x(row) for row in rows] or [1.0]) * 1.06 or 1.0


def _labelled(best: Sequence[Row], low: float, high: float, right: float) -> list[tuple[Row, bool]]:
    """Rows of the line with a label, and whether it goes to the left of its point."""
    xs = [_x(row) / right for row in best]
    return LABELS.chosen(best, xs, [log_share(_y(row), low, high) for row in best])
