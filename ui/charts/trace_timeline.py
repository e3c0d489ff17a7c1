"""Memory over a traced run or a recorded one: parts stacked, what the allocator holds as a line, the peak marked.

Points are the fullest moments of short stretches, so the peak is exact. A phase has its own width on the axis,
as on the Plan page, and its events are spread evenly over it; widths are not times.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from planner.ledger import Category, Phase
from profiler.trace.answer import Point
from ui.charts.base import finish, nice_step
from ui.charts.drawing import Drawing
from ui.charts.phases import WIDTHS
from ui.tokens import LIGHT, PART_LIGHT, faded
from ui.units import amount
from ui.words import Words

HEIGHT: Final = 288
UNKNOWN: Final = "unknown"
"""A part that nothing tells the owner of: in a recorded run only."""

STACK: Final[tuple[str, ...]] = (*(category.value for category in Category), UNKNOWN)
PALE: Final = frozenset({Category.ALLOCATOR.value, UNKNOWN})
"""Always paler: one has the colour of the libraries' workspaces beside which it lies, the other has none."""

RESTING: Final = frozenset({Category.WEIGHTS.value, Category.OPTIMIZER.value})
"""Parts that rest in a recorded run, which has no steps to tell it from."""

BELOW_FRAC: Final = 0.04
LABEL_FROM_FRAC: Final = 0.065
CAPACITY_UNTIL: Final = 1.35
"""A card up to this much larger than the run is drawn; a larger one would press the run flat."""

ONE_WIDTH: Final = 100.0
"""Of a run without phases."""

HEAD: Final = 1.2
"""The axis reaches this far above everything drawn: room for the text of the peak."""

DECIMALS: Final = 4
FEW_STEPS: Final = 3


@dataclass(frozen=True, slots=True)
class Span:
    """One phase of one step on the axis.

    Attributes:
        phase: Which, None for a run without phases.
        step: Step, 0 before the first.
        start: Left end.
        end: Right end.
        points: Its points.
    """

    phase: Phase | None
    step: int
    start: float
    end: float
    points: tuple[Point, ...]


def spans(points: Sequence[Point]) -> tuple[Span, ...]:
    """The phases end to end. A rest of a few events between two steps has no width of its own."""
    found: list[Span] = []
    at = 0.0
    for (step, name), group in groupby(points, key=lambda point: (point.step, point.phase)):
        phase = Phase(name) if name else None
        width = WIDTHS[phase] if phase is not None else ONE_WIDTH
        if phase is Phase.REST:
            width = 0
        found.append(Span(phase, step, at, at + width, tuple(group)))
        at += width
    return tuple(found)


def places(points: Sequence[Point]) -> list[float]:
    """Where each point lies on the axis."""
    return [
        span.start + (span.end - span.start) * (i + 0.5) / len(span.points)
        for span in spans(points)
        for i in range(len(span.points))
    ]


def layers(points: Sequence[Point]) -> dict[str, list[int]]:
    """Bytes by part at every point, in stacking order; empty parts left out.

    What rounding to blocks adds lies in the allocator's part, so that the stack is what is allocated.
    """
    sizes = {name: [0] * len(points) for name in STACK}
    for i, point in enumerate(points):
        for name, size in point.categories:
            sizes[name][i] += size
        sizes[Category.ALLOCATOR.value][i] += point.allocated_bytes - sum(
            size for _, size in point.categories
        )
    return {name: values for name, values in sizes.items() if any(value > 0 for value in values)}


def timeline(
    points: Sequence[Point],
    words: Words,
    *,
    capacity_bytes: int | None = None,
    stop_event: int | None = None,
) -> Any:
    """The figure, 288 px.

    Args:
        points: In order, the peak among them.
        words: For phases and hover texts.
        capacity_bytes: What a card can give the allocator, drawn where it is near; None for none.
        stop_event: Event at which that card runs out, None if it does not.
    """
    fig = Drawing()
    xs, axis = places(points), spans(points)
    end = axis[-1].end if axis else 1.0
    high = _high(points, capacity_bytes)
    _phases(fig, axis, end, words)
    _parts(fig, points, xs, words)
    _reserved(fig, points, xs)
    if capacity_bytes is not None and amount(capacity_bytes) <= high:
        _capacity(fig, capacity_bytes, words)
    if stop_event is not None:
        _stop(fig, points, xs, stop_event)
    _peak(fig, points, xs, (end, high), words)
    finish(fig, HEIGHT, margin={"l": 44, "r": 0, "t": 24, "b": 26})
    fig.update_layout(hovermode="x", hoverdistance=40)
    fig.update_xaxes(range=[0, end], showgrid=False, **_steps(axis, words))
    return fig.update_yaxes(
        range=[-BELOW_FRAC * high, high], dtick=nice_step(high, 6), tickformat="~g", ticklabelstandoff=4
    ).figure()


def peak_of(points: Sequence[Point]) -> Point | None:
    """The point of the peak, of equal ones the last; None where there is none."""
    return max(points, key=lambda point: (point.allocated_bytes, point.event), default=None)


def alternative(points: Sequence[Point], words: Words) -> str:
    """The figure in words."""
    peak = peak_of(points)
    if peak is None:
        return words("trace.chart.alt_empty")
    facts = {"peak": _text(peak.allocated_bytes), "reserved": _text(max(p.reserved_bytes for p in points))}
    most: dict[str, int] = {}
    for span in spans(points):
        if span.phase is not None:
            here = max(point.allocated_bytes for point in span.points)
            most[span.phase.value] = max(most.get(span.phase.value, 0), here)
    if not most:
        return words("trace.chart.alt_recorded", **facts)
    phases = words.listed(
        words("chart.phase_alt", phase=words(f"phase.{name}.name"), gib=_text(size))
        for name, size in most.items()
    )
    return words("trace.chart.alt", phases=phases, **facts)


def _text(size_bytes: int) -> str:
    return f"{amount(size_bytes):.3g}"


def _high(points: Sequence[Point], capacity_bytes: int | None) -> float:
    most = amount(max((point.reserved_bytes for point in points), default=0)) or 1.0
    if capacity_bytes is not None and amount(capacity_bytes) <= most * CAPACITY_UNTIL:
        most = max(most, amount(capacity_bytes))
    return most * HEAD


def _phases(fig: Drawing, axis: Sequence[Span], end: float, words: Words) -> None:
    for span in axis:
        if span.phase is Phase.BACKWARD:
            fig.add_shape(
                type="rect", xref="x", yref="paper", x0=span.start, x1=span.end, y0=0, y1=1,
                fillcolor=LIGHT["track"], line={"width": 0}, layer="below",
            )  # fmt: skip
        if span.phase is not None and span.end - span.start >= LABEL_FROM_FRAC * end:
            fig.add_annotation(
                x=(span.start + span.end) / 2,
                y=1,
                yref="paper",
                yanchor="bottom",
                showarrow=False,
                text=words(f"phase.{span.phase.value}.short"),
                font={"size": 14, "color": LIGHT["muted"]},
            )


def _parts(fig: Drawing, points: Sequence[Point], xs: list[float], words: Words) -> None:
    """Areas, bottom first. What rests all along is paler, so that what comes and goes stands out."""
    for name, sizes in layers(points).items():
        color = LIGHT["muted"] if name == UNKNOWN else PART_LIGHT[Category(name)]
        fig.add_scatter(
            x=_rounded(xs),
            y=_rounded(amount(size) for size in sizes),
            mode="lines",
            stackgroup="parts",
            line={"width": 0, "color": color, "shape": "hv"},
            fillcolor=faded(color, 0.5) if name in PALE or _rests(name, points, sizes) else color,
            name=name,
            hoverinfo="skip",
        )
    text = [_hover(point, words) for point in points]
    fig.add_scatter(
        x=_rounded(xs),
        y=_rounded(amount(point.allocated_bytes) for point in points),
        text=text,
        mode="lines",
        line={"width": 1, "color": LIGHT["text"], "shape": "hv"},
        name="allocated",
        hovertemplate="%{text}<extra></extra>",
    )


def _rests(name: str, points: Sequence[Point], sizes: Sequence[int]) -> bool:
    """Whether a part is there throughout the last step, hardly smaller at one moment than at another."""
    last = max((point.step for point in points), default=0)
    if last == 0:
        return name in RESTING
    here = [size for point, size in zip(points, sizes, strict=True) if point.step == last]
    return min(here) >= 0.5 * max(here)


def _hover(point: Point, words: Words) -> str:
    facts = {"allocated": _text(point.allocated_bytes), "reserved": _text(point.reserved_bytes)}
    if not point.phase:
        return words("trace.chart.hover_recorded", **facts)
    return words("trace.chart.hover", phase=words(f"phase.{point.phase}.name"), **facts)


def _reserved(fig: Drawing, points: Sequence[Point], xs: list[float]) -> None:
    fig.add_scatter(
        x=_rounded(xs),
        y=_rounded(amount(point.reserved_bytes) for point in points),
        mode="lines",
        line={"width": 1.5, "color": LIGHT["muted"], "dash": "dot", "shape": "hv"},
        name="reserved",
        hoverinfo="skip",
    )


def _capacity(fig: Drawing, capacity_bytes: int, words: Words) -> None:
    level = amount(capacity_bytes)
    fig.add_hline(y=level, line={"width": 1.5, "color": LIGHT["text"]})
    fig.add_annotation(
        x=0,
        xref="paper",
        xanchor="left",
        y=level,
        yanchor="bottom",
        showarrow=False,
        text=words("trace.chart.capacity", size=f"{level:.1f}"),
        font={"size": 14, "color": LIGHT["text"]},
    )


def _stop(fig: Drawing, points: Sequence[Point], xs: list[float], event: int) -> None:
    """A rule where the card runs out."""
    at = next((x for x, point in zip(xs, points, strict=True) if point.event >= event), xs[-1] if xs else 0.0)
    fig.add_shape(
        type="line", xref="x", yref="paper", x0=at, x1=at, y0=0, y1=1,
        line={"width": 1.5, "color": LIGHT["bad"]},
    )  # fmt: skip


def _peak(
    fig: Drawing, points: Sequence[Point], xs: list[float], ends: tuple[float, float], words: Words
) -> None:
    """The mark, and its size at the upper edge, where no line is."""
    end, high = ends
    peak = peak_of(points)
    if peak is None:
        return
    x = xs[list(points).index(peak)]
    size = amount(peak.allocated_bytes)
    fig.add_scatter(
        x=[x],
        y=[size],
        mode="markers",
        marker={"size": 8, "color": LIGHT["text"], "line": {"width": 2, "color": LIGHT["background"]}},
        name="peak",
        hoverinfo="skip",
    )
    stem = {"width": 1, "color": LIGHT["text"], "dash": "dot"}
    fig.add_shape(type="line", xref="x", yref="y", x0=x, x1=x, y0=size, y1=high, line=stem)
    right = x > end / 2
    fig.add_annotation(
        x=x,
        y=1,
        yref="paper",
        xanchor="right" if right else "left",
        yanchor="top",
        xshift=-4 if right else 4,
        showarrow=False,
        text=words("trace.chart.peak", size=f"{size:.3g}" if size < 1 else f"{size:.2f}"),
        font={"size": 14},
    )


def _steps(axis: Sequence[Span], words: Words) -> dict[str, Any]:
    """Names of the steps under their middle; none for a run without steps or with many."""
    ends: dict[int, tuple[float, float]] = {}
    for span in axis:
        if span.step and span.end > span.start:
            start, _ = ends.get(span.step, (span.start, span.end))
            ends[span.step] = (start, span.end)
    if not ends or len(ends) > FEW_STEPS:
        return {"showticklabels": False}
    return {
        "tickvals": [(start + stop) / 2 for start, stop in ends.values()],
        "ticktext": [words("trace.chart.step", n=step) for step in ends],
    }


def _rounded(values: Any) -> list[float]:
    return [round(value, DECIMALS) for value in values]
