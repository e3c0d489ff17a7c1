"""Level and band of a plan from runs that the user measured on the same runtime, card and driver.

A published band says how far runs of a kind were off on anybody's machine. Part of that spread is the machine's and
the setup's own and stays the same from run to run; a run measured there tells it. Both parts are taken as normal on the
logarithm of measured over predicted, with half of the published variance each (which share is whose is not published;
half is an assumption). The usual posterior follows: the level moves towards what was measured, and the band narrows,
to 87 % of its width after one run and 71 % in the end. A run of the very same question needs no model: its own figure
is the answer, within what a repetition moves. Normal model with known variances: Gelman et al., Bayesian Data Analysis,
3rd edition, section 2.5.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Final

from planner.accuracy.bands import COVERAGE_FRAC, DEVICE_LAYER, KEPT, KEPT_SAME, basis_order, row_of
from planner.estimate import verdict_for, worst_verdict
from planner.hardware import Band, Tables
from planner.plan_types import Known, PeakBand, Plan

MACHINE_FRAC: Final = 0.5
"""Share of the published variance that is the machine's and the setup's own."""

REPEAT_FRAC: Final = 0.02
"""How far a repetition of the same run may move: kernels that the libraries choose anew, and the allocator's
segments, which come in steps of 2 and 20 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRun:
    """A measured run that the user chose to keep.

    Attributes:
        id: Its own for good.
        name: What the user calls it.
        created_at: When it was measured, UTC, ISO 8601.
        runtime: `runtime.name` of its scenario.
        task: Task of its scenario.
        gpu_id: Card it ran on.
        driver: Version of the driver.
        question: Digest of its scenario with every default filled in.
        layer: Outermost layer that was measured and predicted.
        predicted_bytes: Prediction in that layer.
        measured_bytes: Measurement in that layer.
    """

    id: str
    name: str
    created_at: str
    runtime: str
    task: str
    gpu_id: str
    driver: str
    question: str
    layer: str
    predicted_bytes: int
    measured_bytes: int

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured_bytes / self.predicted_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What kept runs say of a plan.

    Attributes:
        band: In place of the published one; `basis` is `kept`, or `kept_same` for the very same question.
        level: Factor on the predicted peak that the kept runs ask for.
        runs: Ids of the runs it comes from.
        driver: The driver they share.
    """

    band: PeakBand
    level: float
    runs: tuple[str, ...]
    driver: str


def matching(plan: Plan, kept: Iterable[KeptRun], driver: str | None = None) -> tuple[KeptRun, ...]:
    """Kept runs of the plan's runtime and card, and of one driver.

    Args:
        plan: The plan.
        kept: All kept runs.
        driver: The machine's driver; None takes that of the newest run that fits otherwise.
    """
    resolved = plan.resolved
    return _matching(
        kept, resolved.runtime.name, plan.worst.gpu_id, training=resolved.is_training, driver=driver
    )


def _matching(
    kept: Iterable[KeptRun], runtime: str, gpu_id: str, *, training: bool, driver: str | None
) -> tuple[KeptRun, ...]:
    fitting = [
        run
        for run in kept
        if run.runtime == runtime
        and run.gpu_id == gpu_id
        and (run.task != "serve") == training
        and run.predicted_bytes > 0
        and run.measured_bytes > 0
    ]
    if not fitting:
        return ()
    wanted = max(fitting, key=lambda run: run.created_at).driver if driver is None else driver
    return tuple(run for run in fitting if run.driver == wanted)


def calibrated_tables(
    tables: Tables, runtime: str, task: str, gpu_id: str, kept: Iterable[KeptRun], driver: str | None = None
) -> Tables:
    """Tables whose band for a runtime and a task is that of one card after what was measured here.

    Everything worked out from them (plans, maps, searches) then carries it, with `kept` as its basis. They are the
    tables given where no kept run fits.

    Args:
        tables: The shipped tables.
        runtime: `runtime.name` of the question.
        task: Task of the question.
        gpu_id: The card of the question.
        kept: All kept runs.
        driver: The machine's driver; None takes that of the newest run that fits otherwise.
    """
    runs = _matching(kept, runtime, gpu_id, training=task != "serve", driver=driver)
    if not runs:
        return tables
    rows = (row_of(of, of_task, tables) for _, of, of_task in basis_order(runtime, task))
    nearest = next((row for row in rows if row is not None), None)
    low_log, high_log = _interval(None if nearest is None else _logs(nearest), runs)
    row = Band(
        runtime=runtime,
        task=task,
        layer=DEVICE_LAYER,
        n_rows=len(runs),
        low_frac=math.exp(low_log),
        high_frac=math.exp(high_log),
        made_on=max(run.created_at for run in runs)[:10],
        source=KEPT,
    )
    key = (runtime, task, DEVICE_LAYER)
    others = (band for band in tables.bands if (band.runtime, band.task, band.layer) != key)
    return replace(tables, bands=(row, *others))


def _logs(band: Band) -> tuple[float, float]:
    return math.log(band.low_frac), math.log(band.high_frac)


def calibrated(
    plan: Plan, kept: Iterable[KeptRun], *, question: str = "", driver: str | None = None
) -> Calibration | None:
    """The band of a plan after what was measured here; None where no kept run is of its runtime, card and driver.

    Args:
        plan: The plan, with its published band if it has one.
        kept: All kept runs.
        question: Digest of the plan's own question, to find a run of the very same one; empty for none.
        driver: The machine's driver, None for that of the newest run.
    """
    runs = matching(plan, kept, driver)
    if not runs:
        return None
    same = tuple(run for run in runs if question and run.question == question)
    if same:
        return _of_the_same(plan, same)
    return _of_the_kind(plan, runs)


def _of_the_same(plan: Plan, runs: tuple[KeptRun, ...]) -> Calibration:
    peak, ratios = plan.worst.peak_bytes, [run.ratio for run in runs]
    band = PeakBand(
        low_bytes=round(peak * min(ratios) * (1 - REPEAT_FRAC)),
        high_bytes=round(peak * max(ratios) * (1 + REPEAT_FRAC)),
        coverage_frac=COVERAGE_FRAC,
        num_rows=len(runs),
        basis=KEPT_SAME,
    )
    return Calibration(
        band=band, level=median(ratios), runs=tuple(run.id for run in runs), driver=runs[0].driver
    )


def _of_the_kind(plan: Plan, runs: tuple[KeptRun, ...]) -> Calibration:
    peak, published = plan.worst.peak_bytes, plan.worst.band
    known = published is not None and published.low_bytes > 0 and peak > 0
    logs = (
        (math.log(published.low_bytes / peak), math.log(published.high_bytes / peak))
        if published is not None and known
        else None
    )
    low, high = _interval(logs, runs)
    band = PeakBand(
        low_bytes=round(peak * math.exp(low)),
        high_bytes=round(peak * math.exp(high)),
        coverage_frac=COVERAGE_FRAC,
        num_rows=len(runs),
        basis=KEPT,
    )
    return Calibration(
        band=band, level=math.exp((low + high) / 2), runs=tuple(run.id for run in runs), driver=runs[0].driver
    )


def _interval(published: tuple[float, float] | None, runs: tuple[KeptRun, ...]) -> tuple[float, float]:
    """The interval after the runs, as the published one before them: logarithms of observed over predicted."""
    logs = [math.log(run.ratio) for run in runs]
    if published is None:
        centre, half_width = fmean(logs), max(max(logs) - min(logs), math.log(1 + REPEAT_FRAC))
    else:
        centre, half_width = sum(published) / 2, (published[1] - published[0]) / 2
    middle = centre + posterior_weight(len(runs)) * (fmean(logs) - centre)
    half_width *= math.sqrt(remaining_variance_frac(len(runs)))
    return middle - half_width, middle + half_width


def posterior_weight(num_runs: int) -> float:
    """How far the level moves from the published middle to the mean of the runs."""
    machine, within = MACHINE_FRAC, 1 - MACHINE_FRAC
    return num_runs * machine / (num_runs * machine + within)


def remaining_variance_frac(num_runs: int) -> float:
    """Variance of the next run, as a share of the published one: its own, and what is not known of the machine's."""
    machine, within = MACHINE_FRAC, 1 - MACHINE_FRAC
    return within + machine * within / (num_runs * machine + within)


def with_calibration(plan: Plan, calibration: Calibration) -> Plan:
    """The plan with the calibrated band on its fullest devices, and the verdict that follows."""
    worst, margin = plan.worst, plan.resolved.hardware.margin_frac
    verdict = verdict_for(calibration.band, worst.usable_bytes, margin)
    devices = tuple(
        replace(device, band=calibration.band, verdict=verdict) if place == plan.fullest else device
        for place, device in enumerate(plan.devices)
    )
    return replace(
        plan, devices=devices, verdict=worst_verdict(one.verdict for one in devices), known=Known.MEASURED
    )
