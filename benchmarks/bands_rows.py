"""The rows of the band table: how far observed / predicted may lie from 1, nine times of ten, for the next source.

What a source does alike in all its runs (its machines, its versions, how it reads memory) says little about the
next one, so sources are the unit, and a run of a source that has not been seen is what a band is for:

- A row for any runtime (`*`) is the interval of Student's t: the logarithms of the ratios are taken as normal
  around 0 with the spread of all sources of the layer, every source weighing alike, and as many degrees of
  freedom as there are sources. Few sources, wide band.
- A row of a runtime and task lets each of its sources vote with its runs, and the source not yet seen has one
  vote more, which is the t of any runtime. Each side leaves out 5 % of the votes. With one source, half of the
  row is what others do; with many, their own runs decide. The vote more is that of conformal prediction over
  groups (Lee, Barber and Willett 2023, "Distribution-free inference with hierarchical data"); it goes to a
  distribution instead of to infinity, as in the predictive rule of Blackwell and MacQueen (1973).

No number here is chosen but the 90 % that is asked for and the fewest runs that make a row (`MIN_ROWS`).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from benchmarks.bands_ratios import Ratio
from planner.accuracy.bands import (
    ALLOCATED_LAYER,
    ANY_RUNTIME,
    ANY_TRAINING,
    BEYOND,
    COVERAGE_FRAC,
    DEVICE_LAYER,
    MIN_ROWS,
    OUTER_LAYERS,
    RESERVED_LAYER,
    UNNAMED_LAYER,
)

SERVE: Final = "serve"
ALIKE: Final[Mapping[str, tuple[str, ...]]] = {
    ALLOCATED_LAYER: (ALLOCATED_LAYER,),
    DEVICE_LAYER: OUTER_LAYERS,
    RESERVED_LAYER: OUTER_LAYERS,
    UNNAMED_LAYER: OUTER_LAYERS,
    BEYOND: (BEYOND,),
}
"""Layers whose sources speak for one not seen. What was only reserved stands for the device as well; a peak whose
tool is not named is predicted as the device's, and is known as well as that, but for which of the two was read."""
TAIL_FRAC: Final = (1 - COVERAGE_FRAC) / 2
STEPS: Final = 40
"""Halvings until an end is known to far below what is written."""
DIGITS: Final = 4
"""Decimals of a written end, rounded outwards."""

Votes = Mapping[str, Sequence[float]]
"""Logarithms of the ratios by source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """A band row: which runs it is for, what stands behind it, and the ends of its interval."""

    runtime: str
    task: str
    layer: str = DEVICE_LAYER
    num_rows: int
    num_sources: int
    low: float
    high: float


def widths(found: Iterable[Ratio]) -> list[Width]:
    """Every row of the table: each runtime and task with enough runs of a layer, and any runtime; sorted."""
    usable = [ratio for ratio in found if ratio.possible]
    rows: list[Width] = []
    for serving in (False, True):
        side = [ratio for ratio in usable if (ratio.task == SERVE) is serving]
        for layer in ALIKE:
            rows += _of_layer(layer, side)
    return sorted(rows, key=lambda row: (row.runtime, row.task, row.layer))


def _of_layer(layer: str, side: list[Ratio]) -> list[Width]:
    """The rows of a layer, of training or of serving."""
    alike = [ratio for ratio in side if ratio.layer in ALIKE[layer]] or side
    if not alike or (alike[0].task == SERVE and layer != DEVICE_LAYER):
        return []
    anyone = _votes(alike)
    apart = spread(_votes_apart(alike)) if layer == UNNAMED_LAYER else 0.0
    task = SERVE if alike[0].task == SERVE else ANY_TRAINING
    rows = [_row(ANY_RUNTIME, task, layer, alike, {}, anyone, apart)]
    for key, members in _by_key(layer, side).items():
        if len(members) >= MIN_ROWS:
            rows.append(_row(*key, layer, members, _votes(members), anyone, apart))
    return rows


def _by_key(layer: str, side: list[Ratio]) -> dict[tuple[str, str], list[Ratio]]:
    """The layer's own readings by runtime and task; what lies beyond the allocator is one row for all."""
    wanted = {UNNAMED_LAYER: (UNNAMED_LAYER,), BEYOND: ()}.get(layer, ALIKE[layer])
    found: dict[tuple[str, str], list[Ratio]] = {}
    for ratio in side:
        if ratio.layer in wanted:
            found.setdefault((ratio.runtime, ratio.task), []).append(ratio)
    return found


def _row(
    runtime: str, task: str, layer: str, members: list[Ratio], own: Votes, anyone: Votes, apart: float
) -> Width:
    low, high = interval(own, anyone, apart)
    return Width(
        runtime=runtime,
        task=task,
        layer=layer,
        num_rows=len(members),
        num_sources=len(_votes(members)),
        low=low,
        high=high,
    )


def _votes(members: Iterable[Ratio]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for member in members:
        found.setdefault(member.family, []).append(math.log(member.value))
    return found


def _votes_apart(members: Iterable[Ratio]) -> dict[str, list[float]]:
    """How far the two outer layers are predicted to lie apart, by source."""
    found: dict[str, list[float]] = {}
    for member in members:
        found.setdefault(member.family, []).append(member.apart)
    return found


def interval(own: Votes, anyone: Votes, apart: float = 0.0) -> tuple[float, float]:
    """The interval around 1 that leaves 5 % of the votes out on each side, its ends rounded outwards.

    Args:
        own: Logarithms of the ratios by source, a vote each; empty for what no source speaks of.
        anyone: The same of the sources that stand for one not seen.
        apart: What comes to their spread because it is not said which layer was read; both go their own ways.
    """
    dof, scale = len(anyone), math.hypot(spread(anyone), apart)

    def above(x: float) -> float:
        return student_above(x / scale, dof) if scale else 0.0

    high = _end([*own.values()], above)
    low = _end([[-value for value in values] for values in own.values()], above)
    unit = 10**DIGITS
    return math.floor(math.exp(-low) * unit) / unit, math.ceil(math.exp(high) * unit) / unit


def spread(votes: Votes) -> float:
    """Root mean square of the logarithms, every source weighing alike."""
    return math.sqrt(fmean(fmean(value**2 for value in values) for values in votes.values()))


def _end(own: Sequence[Sequence[float]], above: Callable[[float], float]) -> float:
    """The least distance from 0 beyond which at most 5 % of the votes lie; one vote is that of `above`."""

    def left(x: float) -> float:
        return (sum(fmean(value > x for value in values) for values in own) + above(x)) / (len(own) + 1)

    if left(0.0) <= TAIL_FRAC:
        return 0.0
    low, high = 0.0, 1.0
    while left(high) > TAIL_FRAC:
        low, high = high, high * 2
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if left(middle) <= TAIL_FRAC else (middle, high)
    return high


def student_above(t: float, dof: int) -> float:
    """P(T > t) of Student's t for t >= 0 and whole degrees of freedom; Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(dof))
    sine, cosine = math.sin(angle), math.cos(angle)
    term, total = (cosine, cosine) if dof % 2 else (1.0, 1.0)
    for i in range(2 + dof % 2, dof - 1, 2):
        term *= cosine**2 * (i - 1) / i
        total += term
    if dof == 1:
        total = 0.0
    within = 2 / math.pi * (angle + sine * total) if dof % 2 else sine * total
    return (1 - within) / 2
