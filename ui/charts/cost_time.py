"""What a run costs against how long it takes: which plan buys which day."""

from collections.abc import Sequence
from math import ceil, log10
from typing import Any, Final

from planner.search.types import Found
from ui.charts.base import bold, finish, new_figure
from ui.charts.best_line import (
    HEIGHT,
    LABEL_HEIGHT,
    TOP,
    Labels,
    Look,
    add_points,
    hover,
    line_color,
    log_share,
    round_prices,
)
from ui.cost.money import cards_text, usd
from ui.cost.wording import duration
from ui.numbers import whole
from ui.words import Words

LEFT: Final = 52
BOTTOM: Final = 30
LABELS: Final[Labels[Found]] = Labels(width=0.34, right_half=0.36, bottom=BOTTOM, at_edge=True)
HOURS: Final = 24
HOUR_TICKS: Final = (0.1, 0.25, 0.5, 1, 2, 3, 6, 12)
DAY_TICKS: Final = (1, 2, 4, 7, 14, 30, 60, 120, 365, 1000, 3650)
TIME_TICKS: Final = (*(hour / HOURS for hour in HOUR_TICKS), *DAY_TICKS)
MOST_TICKS: Final = 6
BESIDE: Final = 14
"""Pixels from a point to the middle of its label."""
ROOM_BELOW: Final = 1.4
"""The axis begins so much lower that the label of the cheapest point stands above its end."""


def cost_time(others: Sequence[Found], best: Sequence[Found], words: Words) -> Any:
    """A scatter with the line of plans that none beats on both price and time; bars are the band of the time.

    Args:
        others: Plans that are not on the line.
        best: Plans on the line, cheapest first.
        words: For hover texts.

    Returns:
        A Plotly figure, 288 px high, both axes logarithmic; cards instead of dollars where nothing has a price.
    """
    found = (*others, *best)
    fig = new_figure()
    _points(fig, others, words, on_line=False)
    _points(fig, best, words, on_line=True)
    times = _span([one.days or 0 for one in found] + [day for one in best for day in _ends(one)])
    lowest, highest = _span([_y(one) for one in found])
    prices = (lowest / ROOM_BELOW, highest)
    for one, to_left in _labelled(best, times, prices):
        fig.add_annotation(
            x=log10(one.days or 1) if to_left else 0,
            xref="x" if to_left else "paper",
            y=log10(_y(one)),
            xanchor="right" if to_left else "left",
            xshift=-9 if to_left else 2,
            yshift=BESIDE if not to_left and _covers_line(one, best, times, prices) else -BESIDE,
            showarrow=False,
            text=f"{cards_text(one.devices, one.machine.gpu)}  {bold(_price(one))}",
            font={"size": 14},
        )
    finish(fig, HEIGHT, margin={"l": LEFT, "r": 4, "t": TOP, "b": BOTTOM})
    days = [day for day in TIME_TICKS if times[0] <= day <= times[1]]
    days = days[:: ceil(len(days) / MOST_TICKS)]
    fig.update_xaxes(
        type="log",
        range=[log10(end) for end in times],
        tickvals=days,
        ticktext=[_tick(day, words) for day in days],
    )
    ticks = round_prices(*prices)
    fig.update_yaxes(
        type="log",
        range=[log10(end) for end in prices],
        tickvals=ticks,
        ticktext=[_amount(tick, found) for tick in ticks],
    )
    return fig


def alternative(found: Sequence[Found], best: Sequence[Found], words: Words) -> str:
    """The figure in words."""
    points = words.clauses(
        words(
            "recommend.chart.alt_point",
            cards=cards_text(one.devices, one.machine.gpu),
            price=_price(one),
            time=duration(one.days or 0, words),
        )
        for one in best
    )
    return words("recommend.chart.alt", n=whole(len(found)), points=points)


def _points(fig: Any, found: Sequence[Found], words: Words, *, on_line: bool) -> None:
    bars = None
    if on_line:
        ends = [_ends(one) for one in found]
        bars = {
            "type": "data",
            "symmetric": False,
            "array": [high - (one.days or 0) for one, (_, high) in zip(found, ends, strict=True)],
            "arrayminus": [(one.days or 0) - low for one, (low, _) in zip(found, ends, strict=True)],
            "color": line_color(on_line=True),
            "thickness": 1,
            "width": 3,
        }
    look = Look(
        name=words("recommend.chart.line" if on_line else "recommend.chart.other"),
        hovers=[_hover(one, words) for one in found],
        on_line=on_line,
        bars=bars,
    )
    add_points(fig, [one.days for one in found], [_y(one) for one in found], look)


def _hover(one: Found, words: Words) -> str:
    machine, time = one.machine, duration(one.days or 0, words)
    told = words("recommend.chart.hover", price=_price(one), time=time)
    where = (machine.provider, machine.name, machine.region)
    return hover(cards_text(one.devices, machine.gpu), where, told)


def _ends(one: Found) -> tuple[float, float]:
    days, cost = one.days or 0.0, one.cost
    if cost is None or cost.low_days is None or cost.high_days is None:
        return days, days
    return cost.low_days, cost.high_days


def _y(one: Found) -> float:
    return float(one.devices) if one.usd is None else one.usd


def _price(one: Found) -> str:
    return "" if one.usd is None else usd(one.usd)


def _amount(tick: float, found: Sequence[Found]) -> str:
    return f"${tick:,g}" if any(one.usd is not None for one in found) else f"{tick:g}"


def _tick(day: float, words: Words) -> str:
    if day < 1:
        return words("recommend.chart.hours", n=f"{day * HOURS:.2g}")
    return words("recommend.chart.days", n=f"{day:g}")


def _span(values: Sequence[float]) -> tuple[float, float]:
    known = [value for value in values if value > 0] or [1.0]
    return min(known) / 1.25, max(known) * 1.25


def _covers_line(
    one: Found, best: Sequence[Found], times: tuple[float, float], prices: tuple[float, float]
) -> bool:
    """Whether a label at the left edge, below its point, would lie on other points of the line."""
    height = HEIGHT - TOP - BOTTOM
    y = log_share(_y(one), *prices)
    return any(
        log_share(other.days or 1, *times) < LABELS.width
        and 0 <= (y - log_share(_y(other), *prices)) * height < BESIDE + LABEL_HEIGHT
        for other in best
        if other is not one
    )


def _labelled(
    best: Sequence[Found], times: tuple[float, float], prices: tuple[float, float]
) -> list[tuple[Found, bool]]:
    """Plans of the line with a label, and whether it goes to the left of its point."""
    xs = [log_share(one.days or 1, *times) for one in best]
    return LABELS.chosen(best, xs, [log_share(_y(one), *prices) for one in best])
