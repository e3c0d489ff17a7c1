"""What a run costs against how long it takes: which plan buys which day."""

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Any, Final

from planner.search.types import Found
from ui.charts.base import bold, colored, finish, new_figure
from ui.cost.money import cards_text, usd
from ui.cost.wording import duration
from ui.numbers import whole
from ui.tokens import LIGHT
from ui.words import Words

HEIGHT: Final = 288
LEFT: Final = 52
TOP: Final = 12
BOTTOM: Final = 30
LABEL_WIDTH: Final = 0.34
"""Share of the narrowest plot that a label takes: one figure serves phones and desks."""
LABEL_HEIGHT: Final = 19
RIGHT_HALF: Final = 0.36
HOURS: Final = 24
HOUR_TICKS: Final = (0.1, 0.25, 0.5, 1, 2, 3, 6, 12)
DAY_TICKS: Final = (1, 2, 4, 7, 14, 30, 60, 120, 365, 1000, 3650)
TIME_TICKS: Final = (*(hour / HOURS for hour in HOUR_TICKS), *DAY_TICKS)
MOST_TICKS: Final = 6


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
    prices = _span([_y(one) for one in found])
    for one, to_left in _labelled(best, times, prices):
        fig.add_annotation(
            x=log10(one.days or 1) if to_left else 0,
            xref="x" if to_left else "paper",
            y=log10(_y(one)),
            xanchor="right" if to_left else "left",
            xshift=-9 if to_left else 2,
            yshift=-14,
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
    ticks = _ticks(*prices)
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
    color = LIGHT["accent"] if on_line else LIGHT["muted"]
    bars = None
    if on_line:
        ends = [_ends(one) for one in found]
        bars = {
            "type": "data",
            "symmetric": False,
            "array": [high - (one.days or 0) for one, (_, high) in zip(found, ends, strict=True)],
            "arrayminus": [(one.days or 0) - low for one, (low, _) in zip(found, ends, strict=True)],
            "color": color,
            "thickness": 1,
            "width": 3,
        }
    fig.add_scatter(
        x=[one.days for one in found],
        y=[_y(one) for one in found],
        mode="lines+markers" if on_line else "markers",
        error_x=bars,
        line={"color": color, "width": 1.5},
        marker={
            "size": 10 if on_line else 7,
            "color": color if on_line else LIGHT["background"],
            "line": {"width": 2 if on_line else 1.2, "color": color},
        },
        name=words("recommend.chart.line" if on_line else "recommend.chart.other"),
        text=[_hover(one, words) for one in found],
        hovertemplate="%{text}<extra></extra>",
    )


def _hover(one: Found, words: Words) -> str:
    where = ", ".join(part for part in (one.machine.provider, one.machine.name, one.machine.region) if part)
    time = duration(one.days or 0, words)
    told = words("recommend.chart.hover", price=_price(one), time=time)
    head = cards_text(one.devices, one.machine.gpu)
    return f"{bold(head)}<br>{colored(where, LIGHT['muted'])}<br>{colored(told, LIGHT['text'])}"


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


def _ticks(low: float, high: float) -> list[float]:
    """Round amounts within the axis, fewer of each power of ten the longer the span."""
    factors = (1, 1.5, 2, 3, 5, 7) if high / low < 10 else (1, 2, 5) if high / low < 2_000 else (1,)
    powers = range(floor(log10(low)), floor(log10(high)) + 1)
    ticks = [round(factor * 10.0**power, 6) for power in powers for factor in factors]
    return [tick for tick in ticks if low <= tick <= high]


def _labelled(
    best: Sequence[Found], times: tuple[float, float], prices: tuple[float, float]
) -> list[tuple[Found, bool]]:
    """Plans of the line that have room for a label, and whether it goes to the left: both ends first."""
    height = HEIGHT - TOP - BOTTOM
    taken: list[tuple[float, float]] = []
    chosen: list[tuple[Found, bool]] = []
    for one in _once((*best[:1], *best[-1:], *best)):
        share = _share(one.days or 1, times)
        to_left = share > RIGHT_HALF
        start = share - LABEL_WIDTH if to_left else 0
        y = height * _share(_y(one), prices)
        if any(abs(start - x) < LABEL_WIDTH and abs(y - other) < LABEL_HEIGHT for x, other in taken):
            continue
        taken.append((start, y))
        chosen.append((one, to_left))
    return chosen


def _once(found: Sequence[Found]) -> list[Found]:
    return list({id(one): one for one in found}.values())


def _share(value: float, span: tuple[float, float]) -> float:
    low, high = (log10(end) for end in span)
    return (log10(value) - low) / (high - low)
