"""Memory over the measured steps: measured as a line, predicted as a broad band behind it, phases as columns.

Every phase stands at its fullest moment, so the line is flat inside a phase.
"""

from dataclasses import dataclass
from typing import Any, Final

from planner.ledger import Category, Phase
from profiler.report import Report
from ui.charts.base import finish, new_figure, nice_step
from ui.measure.result import Result
from ui.tokens import LIGHT, PART_LIGHT, faded
from ui.units import amount
from ui.words import Words

HEIGHT: Final = 288
MOST_STEPS: Final = 3
BELOW_FRAC: Final = 0.04
"""The axis goes on below its lowest tick, so that the tick's text stays clear of the axis across."""

LABEL_FROM_FRAC: Final = 0.07
"""A phase narrower than this share of the axis is not named above it: names would touch."""


@dataclass(frozen=True, slots=True)
class Span:
    """A phase of a measured step on the time axis.

    Attributes:
        phase: Which.
        start_s: Seconds since the first measured step.
        end_s: End.
        measured_bytes: At its fullest.
        predicted_bytes: None where the plan has no such phase.
    """

    phase: Phase
    start_s: float
    end_s: float
    measured_bytes: int
    predicted_bytes: int | None


def spans(result: Result) -> tuple[Span, ...]:
    """The phases of the first measured steps, end to end; time between steps is left out."""
    report = result.report
    kept = sorted({time.step for time in report.steps})[:MOST_STEPS]
    found: list[Span] = []
    at_s = 0.0
    for time in report.steps:
        phase = Phase(time.phase)
        figures = report.figures(phase)
        if time.step not in kept or figures is None:
            continue
        compared = result.phase(phase)
        predicted = compared.total.predicted_bytes if compared is not None else None
        end_s = at_s + time.time_s
        found.append(Span(phase, at_s, end_s, figures.peak_allocated_bytes, predicted))
        at_s = end_s
    return tuple(found)


def num_steps(report: Report) -> int:
    """How many steps the figure shows."""
    return min(MOST_STEPS, len({time.step for time in report.steps}))


def memory_over_steps(result: Result, words: Words, usable_bytes: int | None = None) -> Any:
    """The figure, 288 px.

    Args:
        result: What was measured and predicted.
        words: For phases and hover texts.
        usable_bytes: Drawn as a rule where it is near the measured sizes; None for none.
    """
    fig = new_figure()
    found = spans(result)
    end_s = found[-1].end_s if found else 1.0
    _phases(fig, found, end_s, words)
    _predicted(fig, found, words)
    _measured(fig, found, words)
    low, high = _range(found, usable_bytes)
    if usable_bytes is not None and low <= amount(usable_bytes) <= high:
        _usable(fig, usable_bytes, words)
    fig.update_xaxes(range=[0, end_s], dtick=nice_step(end_s, 6), ticksuffix=words("measure.steps.seconds"))
    finish(fig, HEIGHT, margin={"l": 44, "r": 0, "t": 24, "b": 28})
    fig.update_xaxes(showgrid=False)
    fig.update_yaxes(ticklabelstandoff=4)
    return fig.update_yaxes(
        range=[low - BELOW_FRAC * (high - low), high],
        dtick=nice_step(high - low, 6),
        tickformat="~g",
        ticklabelstandoff=4,
    )


def axis_from(result: Result, usable_bytes: int | None = None) -> float:
    """Where the axis starts, in the unit in force: said beside the figure, because it is cut."""
    return _range(spans(result), usable_bytes)[0]


def alternative(result: Result, words: Words) -> str:
    """The figure in words."""
    seen: dict[Phase, Span] = {}
    for span in spans(result):
        seen.setdefault(span.phase, span)
    phases = words.clauses(
        words(
            "measure.steps.phase_alt",
            phase=words(f"phase.{span.phase.value}.name"),
            measured=_text(span.measured_bytes),
            predicted=_text(span.predicted_bytes),
        )
        for span in seen.values()
    )
    return words("measure.steps.alt", phases=phases)


def _text(size_bytes: int | None) -> str:
    return "–" if size_bytes is None else f"{amount(size_bytes):.3g}"


def _phases(fig: Any, found: tuple[Span, ...], end_s: float, words: Words) -> None:
    for span in found:
        if span.phase is Phase.BACKWARD:
            fig.add_vrect(
                x0=span.start_s, x1=span.end_s, fillcolor=LIGHT["track"], line={"width": 0}, layer="below"
            )
        if (span.end_s - span.start_s) >= LABEL_FROM_FRAC * end_s:
            fig.add_annotation(
                x=(span.start_s + span.end_s) / 2,
                y=1,
                yref="paper",
                yanchor="bottom",
                showarrow=False,
                text=words(f"phase.{span.phase.value}.short"),
                font={"size": 14, "color": LIGHT["muted"]},
            )


def _predicted(fig: Any, found: tuple[Span, ...], words: Words) -> None:
    """A broad, pale line at the predicted level of each phase, broken where nothing was predicted."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for span in found:
        level = None if span.predicted_bytes is None else amount(span.predicted_bytes)
        xs += [span.start_s, span.end_s, None]
        ys += [level, level, None]
    fig.add_scatter(
        x=xs,
        y=ys,
        mode="lines",
        line={"width": 10, "color": faded(PART_LIGHT[Category.GRADIENTS], 0.45)},
        name="predicted",
        hovertemplate=words("measure.steps.predicted_hover") + "<extra></extra>",
    )


def _measured(fig: Any, found: tuple[Span, ...], words: Words) -> None:
    fig.add_scatter(
        x=[x for span in found for x in (span.start_s, span.end_s)],
        y=[amount(span.measured_bytes) for span in found for _ in (0, 1)],
        mode="lines",
        line={"width": 2, "color": LIGHT["text"]},
        name="measured",
        hovertemplate=words("measure.steps.measured_hover") + "<extra></extra>",
    )


def _usable(fig: Any, usable_bytes: int, words: Words) -> None:
    level = amount(usable_bytes)
    fig.add_hline(y=level, line={"width": 1.5, "color": LIGHT["text"]})
    fig.add_annotation(
        x=1,
        xref="paper",
        xanchor="right",
        y=level,
        yanchor="bottom",
        showarrow=False,
        text=words("measure.steps.usable", size=f"{level:.1f}"),
        font={"size": 14, "color": LIGHT["muted"]},
    )


def _range(found: tuple[Span, ...], usable_bytes: int | None) -> tuple[float, float]:
    """From zero where the levels spread widely, else from below the lowest, on a tick."""
    sizes = [amount(span.measured_bytes) for span in found]
    sizes += [amount(span.predicted_bytes) for span in found if span.predicted_bytes is not None]
    if not sizes:
        return 0.0, 1.0
    low, high = min(sizes), max(sizes)
    if usable_bytes is not None and high < amount(usable_bytes) < high * 1.25:
        high = amount(usable_bytes)
    spread = max(high - low, high * 0.02)
    if low < spread:
        return 0.0, high * 1.08
    step = nice_step(spread)
    return max(0.0, step * int((low - 0.15 * spread) / step)), high + 0.1 * spread
