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

from planner.bands import COVERAGE_FRAC
from planner.plan_types import PeakBand, Plan

MACHINE_FRAC: Final = 0.5
"""Share of the published variance that is the machine's and the setup's own."""

REPEAT_FRAC: Final = 0.02
"""How far a repetition of the same run may move: kernels that the libraries choose anew, and the allocator's
segments, which come in steps of 2 and 20 MiB."""

KEPT: Final = "kept"
KEPT_SAME: Final = "kept_same"


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
    runtime, gpu_id, training = plan.resolved.runtime.name, plan.worst.gpu_id, plan.resolved.is_training
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
    logs = [math.log(run.ratio) for run in runs]
    centre, half_width = _published(published, peak, logs)
    weight = posterior_weight(len(runs))
    middle = centre + weight * (fmean(logs) - centre)
    half_width *= math.sqrt(remaining_variance_frac(len(runs)))
    band = PeakBand(
        low_bytes=round(peak * math.exp(middle - half_width)),
        high_bytes=round(peak * math.exp(middle + half_width)),
        coverage_frac=COVERAGE_FRAC,
        num_rows=len(runs),
        basis=KEPT,
    )
    return Calibration(
        band=band, level=math.exp(middle), runs=tuple(run.id for run in runs), driver=runs[0].driver
    )


def _published(band: PeakBand | None, peak_bytes: int, logs: list[float]) -> tuple[float, float]:
    """Middle and half width of the published band on the logarithm; without one, those of the kept runs."""
    if band is None or band.low_bytes <= 0 or peak_bytes <= 0:
        spread = max(logs) - min(logs)
        return fmean(logs), max(spread, math.log(1 + REPEAT_FRAC))
    low, high = math.log(band.low_bytes / peak_bytes), math.log(band.high_bytes / peak_bytes)
    return (low + high) / 2, (high - low) / 2


def posterior_weight(num_runs: int) -> float:
    """How far the level moves from the published middle to the mean of the runs."""
    machine, within = MACHINE_FRAC, 1 - MACHINE_FRAC
    return num_runs * machine / (num_runs * machine + within)


def remaining_variance_frac(num_runs: int) -> float:
    """Variance of the next run, as a share of the published one: its own, and what is not known of the machine's."""
    machine, within = MACHINE_FRAC, 1 - MACHINE_FRAC
    return within + machine * within / (num_runs * machine + within)


def with_calibration(plan: Plan, calibration: Calibration) -> Plan:
    """The plan with the calibrated band on its fullest devices. Its verdict is the caller's to work out anew."""
    devices = tuple(
        replace(device, band=calibration.band) if place == plan.fullest else device
        for place, device in enumerate(plan.devices)
    )
    return replace(plan, devices=devices)
