"""An hour's price against headroom: what a dollar more an hour buys in memory."""

from collections.abc import Sequence
from math import floor, log10
from typing import Any, Final

from ui.charts.base import bold, colored, finish, new_figure, nice_step
from ui.cost.money import cards_text, job_text, usd, usd_cents
from ui.cost.rows import Row
from ui.numbers import gib1, signed_gib
from ui.tokens import LIGHT
from ui.units import amount, current
from ui.words import Words

HEIGHT: Final = 288
LEFT: Final = 46
TOP: Final = 12
BOTTOM: Final = 28
LABEL_WIDTH: Final = 0.36
"""Share of the narrowest plot that a label takes: one figure serves phones and desks."""
LABEL_HEIGHT: Final = 19
RIGHT_HALF: Final = 0.62


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
    ticks = _ticks(low, high)
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
    color = LIGHT["accent"] if on_line else LIGHT["muted"]
    fig.add_scatter(
        x=[_x(row) for row in rows],
        y=[_y(row) for row in rows],
        mode="lines+markers" if on_line else "markers",
        line={"color": color, "width": 1.5},
        marker={
            "size": 10 if on_line else 8,
            "color": color if on_line else LIGHT["background"],
            "line": {"width": 2 if on_line else 1.5, "color": color},
        },
        name=words("cost.chart.line" if on_line else "cost.chart.other"),
        text=[_hover(row, words) for row in rows],
        hovertemplate="%{text}<extra></extra>",
    )


def _hover(row: Row, words: Words) -> str:
    quote = row.quote
    where = ", ".join(part for part in (quote.provider, quote.name, quote.region) if part)
    head = "" if row.gpu is None or row.rented is None else cards_text(row.rented.used, row.gpu)
    price = words("cost.chart.hover", usd=usd_cents(_y(row)), gib=signed_gib(row.headroom_bytes or 0))
    return f"{bold(head)}<br>{colored(where, LIGHT['muted'])}<br>{colored(price, LIGHT['text'])}"


def _x(row: Row) -> float:
    return amount(row.headroom_bytes or 0)


def _y(row: Row) -> float:
    return row.usd_per_hour or 0.0


def _span(rows: Sequence[Row]) -> tuple[float, float, float]:
    """Lowest and highest price of the axis, and the most headroom."""
    prices = [_y(row) for row in rows] or [1.0]
    return min(prices) / 1.6, max(prices) * 1.25, max([_x(row) for row in rows] or [1.0]) * 1.06 or 1.0


def _ticks(low: float, high: float) -> list[float]:
    """Round prices within the axis, fewer of each power of ten the longer the span."""
    factors = (1, 1.5, 2, 3, 4, 5, 7) if high / low < 8 else (1, 2, 5) if high / low < 2_000 else (1,)
    powers = range(floor(log10(low)), floor(log10(high)) + 1)
    ticks = [round(factor * 10.0**power, 6) for power in powers for factor in factors]
    return [tick for tick in ticks if low <= tick <= high]


def _labelled(best: Sequence[Row], low: float, high: float, right: float) -> list[tuple[Row, bool]]:
    """Rows of the line that have room for a label, and whether it goes to the left: both ends first."""
    height = HEIGHT - TOP - BOTTOM
    taken: list[tuple[float, float]] = []
    chosen: list[tuple[Row, bool]] = []
    for row in dict.fromkeys([*best[:1], *best[-1:], *best]):
        share = _x(row) / right
        to_left = share > RIGHT_HALF
        start = share - LABEL_WIDTH if to_left else share
        y = height * (log10(_y(row)) - log10(low)) / (log10(high) - log10(low))
        if any(abs(start - x) < LABEL_WIDTH and abs(y - other) < LABEL_HEIGHT for x, other in taken):
            continue
        taken.append((start, y))
        chosen.append((row, to_left))
    return chosen
