"""Memory of the measuring process while it runs: a line over time, the phases as columns behind it."""

from collections.abc import Iterator
from typing import Any, Final

from profiler.documents import MeasuredPhase
from profiler.events import Sample
from ui.charts.base import finish, new_figure, nice_step
from ui.tokens import LIGHT
from ui.units import amount
from ui.words import Words

HEIGHT: Final = 240
MOST_POINTS: Final = 300
MOST_COLUMNS: Final = 40
BELOW_FRAC: Final = 0.04


def reading_of(sample: Sample) -> int | None:
    """The device's memory where the driver says it, else the process's host memory."""
    return sample.device_used_bytes if sample.device_used_bytes is not None else sample.resident_bytes


def live_memory(samples: tuple[Sample, ...], words: Words) -> Any:
    """The figure, 240 px; the newest readings at the right."""
    fig = new_figure()
    shown = _thinned(samples)
    for start_s, end_s, phase in columns(samples)[-MOST_COLUMNS:]:
        if phase == "backward":
            fig.add_vrect(x0=start_s, x1=end_s, fillcolor=LIGHT["track"], line={"width": 0}, layer="below")
    sizes = [amount(size) for sample in shown if (size := reading_of(sample)) is not None]
    fig.add_scatter(
        x=[sample.at_s for sample in shown],
        y=[None if (size := reading_of(sample)) is None else amount(size) for sample in shown],
        text=[words(f"phase.{sample.phase}.name") if sample.phase else "" for sample in shown],
        mode="lines",
        line={"width": 2, "color": LIGHT["text"]},
        name="live",
        hovertemplate=words("measure.live.hover") + "<extra></extra>",
    )
    high = max(sizes, default=1.0) * 1.1
    end_s = max((sample.at_s for sample in shown), default=1.0) or 1.0
    fig.update_xaxes(range=[0, end_s], dtick=nice_step(end_s, 6), ticksuffix=words("measure.steps.seconds"))
    finish(fig, HEIGHT, margin={"l": 44, "r": 0, "t": 4, "b": 28})
    fig.update_xaxes(showgrid=False)
    fig.update_yaxes(ticklabelstandoff=4)
    return fig.update_yaxes(
        range=[-BELOW_FRAC * high, high], dtick=nice_step(high), tickformat="~g", ticklabelstandoff=4
    )


def columns(samples: tuple[Sample, ...]) -> list[tuple[float, float, MeasuredPhase]]:
    """Stretches of one phase as (start, end, phase), from the readings."""
    found: list[tuple[float, float, MeasuredPhase]] = []
    for start_s, end_s, phase in _stretches(samples):
        if phase is not None:
            found.append((start_s, end_s, phase))
    return found


def _stretches(samples: tuple[Sample, ...]) -> Iterator[tuple[float, float, MeasuredPhase | None]]:
    if not samples:
        return
    start = samples[0]
    for sample in samples[1:]:
        if sample.phase != start.phase:
            yield start.at_s, sample.at_s, start.phase
            start = sample
    yield start.at_s, samples[-1].at_s, start.phase


def _thinned(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    step = max(1, -(-len(samples) // MOST_POINTS))
    return samples[::-step][::-1]
