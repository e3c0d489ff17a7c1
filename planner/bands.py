"""The band around a peak, from residuals on published measurements."""

from planner.hardware import Band, Tables
from planner.plan_types import PeakBand
from planner.scenario import Scenario

COVERAGE_FRAC = 0.9
MIN_ROWS = 8


def band_for(peak_bytes: int, scenario: Scenario, tables: Tables, layer: str = "device") -> PeakBand | None:
    """The interval around a predicted peak: rows of the same runtime and task, else the task, else all.

    `low_frac` and `high_frac` are quantiles of observed / predicted. None where there is no band table at all.
    """
    for basis, runtime, task in (
        ("runtime_task", scenario.runtime.name, scenario.task),
        ("task", "*", scenario.task),
        ("all", "*", "*"),
    ):
        row = _row(tables.bands, runtime, task, layer)
        if row is not None:
            low, high = round(peak_bytes * row.low_frac), round(peak_bytes * row.high_frac)
            return PeakBand(low, high, COVERAGE_FRAC, row.n_rows, basis)
    return None


def _row(bands: tuple[Band, ...], runtime: str, task: str, layer: str) -> Band | None:
    return next((b for b in bands if (b.runtime, b.task, b.layer) == (runtime, task, layer)), None)
