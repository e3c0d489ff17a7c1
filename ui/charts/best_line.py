"""Scatters of prices with the line of what nothing else beats: points, round prices, labels that have room."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any, Final, Generic, TypeVar

from ui.charts.base import bold, colored
from ui.tokens import LIGHT

HEIGHT: Final = 288
TOP: Final = 12
LABEL_HEIGHT: Final = 19
LINE_SIZE: Final = 10
FEW: Final = (1, 1.5, 2, 3, 4, 5, 7)
SOME: Final = (1, 2, 5)
ONE: Final = (1,)
FEW_UP_TO: Final = 10
SOME_UP_TO: Final = 2_000

Point = TypeVar("Point")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How points are drawn.

    Attributes:
        name: Of the trace.
        hovers: A text each.
        on_line: They make the line that none beats.
        size: Of points off the line, in pixels.
        edge: Width of their ring.
        bars: Plotly's error bars along x; None for none.
    """

    name: str
    hovers: Sequence[str]
    on_line: bool
    size: float = 7
    edge: float = 1.2
    bars: dict[str, Any] | None = None


def line_color(*, on_line: bool) -> str:
    """Of points on the line, or off it."""
    return LIGHT["accent"] if on_line else LIGHT["muted"]


def add_points(fig: Any, xs: Sequence[float | None], ys: Sequence[float], look: Look) -> None:
    """Rings, or the line with its filled points."""
    color = line_color(on_line=look.on_line)
    fig.add_scatter(
        x=list(xs),
        y=list(ys),
        mode="lines+markers" if look.on_line else "markers",
        error_x=look.bars,
        line={"color": color, "width": 1.5},
        marker={
            "size": LINE_SIZE if look.on_line else look.size,
            "color": color if look.on_line else LIGHT["background"],
            "line": {"width": 2 if look.on_line else look.edge, "color": color},
        },
        name=look.name,
        text=list(look.hovers),
        hovertemplate="%{text}<extra></extra>",
    )


def hover(head: str, where: Sequence[str], told: str) -> str:
    """What a point says: what it is, where it is had, its figures."""
    place = ", ".join(part for part in where if part)
    return f"{bold(head)}<br>{colored(place, LIGHT['muted'])}<br>{colored(told, LIGHT['text'])}"


def round_prices(low: float, high: float) -> list[float]:
    """Round amounts within the axis, fewer of each power of ten the longer the span."""
    times = high / low
    factors = FEW if times < FEW_UP_TO else SOME if times < SOME_UP_TO else ONE
    powers = range(floor(log10(low)), floor(log10(high)) + 1)
    ticks = [round(factor * 10.0**power, 6) for power in powers for factor in factors]
    return [tick for tick in ticks if low <= tick <= high]


def log_share(value: float, low: float, high: float) -> float:
    """Where a value lies on a logarithmic axis, 0 at its start and 1 at its end."""
    return (log10(value) - log10(low)) / (log10(high) - log10(low))


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels(Generic[Point]):
    """Room for labels: one figure serves phones and desks, so widths are shares of the narrowest plot.

    Attributes:
        width: Share of the plot that a label takes.
        right_half: Share from which a label goes to the left of its point.
        bottom: Pixels below the plot.
        at_edge: A label that goes to the right starts at the plot's left edge instead of at its point.
    """

    width: float
    right_half: float
    bottom: float
    at_edge: bool = False

    def chosen(
        self, best: Sequence[Point], xs: Sequence[float], ys: Sequence[float]
    ) -> list[tuple[Point, bool]]:
        """Points of the line that have room for a label, and whether it goes to the left: both ends first.

        Args:
            best: The line.
            xs: Their shares of the width.
            ys: Their shares of the height.
        """
        height = HEIGHT - TOP - self.bottom
        taken: list[tuple[float, float]] = []
        found: list[tuple[Point, bool]] = []
        order = range(len(best))
        for i in dict.fromkeys([*order[:1], *order[-1:], *order]):
            to_left = xs[i] > self.right_half
            start = xs[i] - self.width if to_left else 0 if self.at_edge else xs[i]
            y = height * ys[i]
            if any(abs(start - x) < self.width and abs(y - other) < LABEL_HEIGHT for x, other in taken):
                continue
            taken.append((start, y))
            found.append((best[i], to_left))
        return found
