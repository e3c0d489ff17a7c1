"""Memory that grows from step to step. Pure."""

from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

from planner.units import MIB
from profiler.report import Report

FEWEST: Final = 8
"""Steps, warm-up left out, below which a slope says nothing."""

WARM_UP_FRAC: Final = 0.2
MOST_POINTS: Final = 200
RISING_FRAC: Final = 0.6
"""Share of the pairs of steps in which the later one holds more."""

LEAST_GROWTH: Final[dict[str, tuple[float, int]]] = {
    "allocated": (0.005, MIB),
    "resident": (0.05, 32 * MIB),
}
"""By counter: growth over the run, as a share of the level and in bytes, below which it is noise. The host's resident
memory moves with its allocator's and the file cache's habits, the device's allocated bytes do not."""

Counter = Literal["allocated", "resident"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How memory went over the steps.

    Attributes:
        counter: `allocated`: live tensors of the device; `resident`: the process's host memory.
        steps: Steps looked at.
        bytes_per_step: Median growth, may be negative.
        growth_bytes: Over all of them.
        leaks: It grows steadily.
        steps_left: Steps until the device is full at that rate, None where that is not known or nothing leaks.
    """

    counter: Counter
    steps: int
    bytes_per_step: float
    growth_bytes: int
    leaks: bool
    steps_left: int | None = None


def growth_of(report: Report) -> Growth | None:
    """Whether memory grows from step to step; None where too few steps were seen.

    The slope is the median of the slopes between all pairs of steps (Theil and Sen), which a single long batch does
    not move; it counts where most later steps hold more than earlier ones (Kendall).
    """
    allocated = [
        (memory.step, memory.after_allocated_bytes)
        for memory in report.memory_by_step
        if memory.after_allocated_bytes is not None
    ]
    resident = [
        (memory.step, memory.resident_bytes)
        for memory in report.memory_by_step
        if memory.resident_bytes is not None
    ]
    counter: Counter = "allocated" if allocated else "resident"
    points = _settled(allocated or resident)
    if len(points) < FEWEST:
        return None
    pairs = [(late, early) for place, late in enumerate(points) for early in points[:place]]
    slope = median((late[1] - early[1]) / (late[0] - early[0]) for late, early in pairs)
    rising = sum(late[1] > early[1] for late, early in pairs) / len(pairs)
    growth = round(slope * (points[-1][0] - points[0][0]))
    share, least = LEAST_GROWTH[counter]
    leaks = rising >= RISING_FRAC and growth >= max(least, share * points[0][1])
    return Growth(
        counter=counter,
        steps=len(points),
        bytes_per_step=slope,
        growth_bytes=growth,
        leaks=leaks,
        steps_left=_steps_left(report, slope) if leaks and counter == "allocated" else None,
    )


def _settled(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Without the first steps, in which states and caches come to be; thinned evenly."""
    left = points[max(2, round(len(points) * WARM_UP_FRAC)) :]
    return left[:: max(1, -(-len(left) // MOST_POINTS))]


def _steps_left(report: Report, slope: float) -> int | None:
    total = report.readings.total_bytes
    peak = report.memory_by_step[-1].peak_reserved_bytes
    if total is None or peak is None or slope <= 0:
        return None
    return max(0, int((total - peak) / slope))
