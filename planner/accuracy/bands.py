"""The band around a peak, from residuals on published measurements."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from planner.hardware import Band, Tables
from planner.ledger import Category, Ledger
from planner.plan_types import PeakBand
from planner.scenario import Scenario

COVERAGE_FRAC: Final = 0.9
MIN_ROWS: Final = 9
"""The fewest runs that make a row of a runtime and task: with fewer, one run in ten can't be told."""
ANY_RUNTIME: Final = "*"
ANY_TRAINING: Final = "train"
DEVICE_LAYER: Final = "device"
ALLOCATED_LAYER: Final = "allocated"
RESERVED_LAYER: Final = "reserved"
OUTER_LAYERS: Final = (DEVICE_LAYER, RESERVED_LAYER)
UNNAMED_LAYER: Final = "unnamed"
"""Peaks whose tool the source does not name."""
KEPT: Final = "kept"
"""Basis, and source of the row, of a band set by runs that the user measured and kept."""
KEPT_SAME: Final = "kept_same"
"""The same from a run of the very same question."""
BEYOND: Final = "beyond"
"""How far what a device held was off where the allocated bytes were right: the ratio of the two layers' ratios."""


def band_for(
    peak_bytes: int, scenario: Scenario, tables: Tables, layer: str = DEVICE_LAYER
) -> PeakBand | None:
    """The interval around a predicted peak.

    `low_frac` and `high_frac` are quantiles of observed / predicted. Serving never borrows from training, nor
    the other way round. None where there is no row at all.

    Args:
        peak_bytes: The peak, in the layer asked for.
        scenario: The question, for its runtime and task.
        tables: With the rows of bands.
        layer: What the peak is of: the device, or what PyTorch allocated or reserved.
    """
    return band_of(peak_bytes, band_row(scenario, tables, layer))


def band_of(peak_bytes: int, found: tuple[str, Band] | None) -> PeakBand | None:
    """The interval that a row of `band_row` puts around a peak."""
    if found is None:
        return None
    basis, row = found
    low, high = round(peak_bytes * row.low_frac), round(peak_bytes * row.high_frac)
    return PeakBand(low, high, COVERAGE_FRAC, row.n_rows, basis)


def band_row(scenario: Scenario, tables: Tables, layer: str = DEVICE_LAYER) -> tuple[str, Band] | None:
    """The row behind a plan's band, and what it shares with the plan; None where there is none.

    Nearest first: runs of the same runtime and task; where those were read at the allocator only, their interval
    and that of what lies beyond it; the same task; any training.
    """
    return nearest_row(scenario.runtime.name, scenario.task, tables, layer)


def nearest_row(
    runtime: str, task: str, tables: Tables, layer: str = DEVICE_LAYER
) -> tuple[str, Band] | None:
    """The same for a runtime and task by name."""
    for basis, of, of_task in basis_order(runtime, task):
        row = row_of(of, of_task, tables, layer)
        if row is not None:
            return (KEPT if row.source == KEPT else basis), row
    return None if layer == DEVICE_LAYER else nearest_row(runtime, task, tables)


def row_of(runtime: str, task: str, tables: Tables, layer: str = DEVICE_LAYER) -> Band | None:
    """The row of one runtime and task, or of any runtime; for an outer layer made from the allocator's if need be.

    What was read with a tool that is not named has rows of its own alone: which layer it saw is not known.
    """
    rows = _by_key(tables)
    row = rows.get((runtime, task, layer))
    if row is None and layer in OUTER_LAYERS and runtime != ANY_RUNTIME:
        within, beyond = (
            rows.get((runtime, task, ALLOCATED_LAYER)),
            rows.get((ANY_RUNTIME, ANY_TRAINING, BEYOND)),
        )
        row = _from_within(within, beyond)
    return row


def _from_within(allocated: Band | None, beyond: Band | None) -> Band | None:
    """The interval of the outer layers from that of live tensors; runs behind it are those of the tensors.

    The two parts go their own ways, so on each side their logarithms add up as the legs of a right triangle do.
    """
    if allocated is None or beyond is None:
        return None
    low = math.exp(-math.hypot(math.log(allocated.low_frac), math.log(beyond.low_frac)))
    high = math.exp(math.hypot(math.log(allocated.high_frac), math.log(beyond.high_frac)))
    return replace(allocated, layer=DEVICE_LAYER, low_frac=low, high_frac=high)


def basis_order(runtime: str, task: str) -> tuple[tuple[str, str, str], ...]:
    """(basis, runtime, task) of the rows that may answer, nearest first."""
    nearest = (("runtime_task", runtime, task), ("task", ANY_RUNTIME, task))
    return nearest if task == "serve" else (*nearest, ("all", ANY_RUNTIME, ANY_TRAINING))


def with_floor(band: PeakBand | None, ledger: Ledger) -> PeakBand | None:
    """The band with its lower end at least the weights, which are counted: a card that they overfill holds no job.

    Weights whose size is itself an estimate (mixed formats) set no floor.
    """
    if band is None:
        return None
    phase = ledger.peak()[0]
    floor = sum(
        entry.bytes
        for entry in ledger.entries
        if entry.category is Category.WEIGHTS and not entry.estimate and phase in entry.phases
    )
    if floor <= band.low_bytes:
        return band
    return replace(band, low_bytes=floor, high_bytes=max(floor, band.high_bytes))


@lru_cache(maxsize=8)
def _by_key(tables: Tables) -> Mapping[tuple[str, str, str], Band]:
    return {(band.runtime, band.task, band.layer): band for band in tables.bands}
