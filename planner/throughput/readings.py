"""The speed of a plan as published measurements name their figures."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.hardware import Tables
from planner.plan_types import Plan
from planner.throughput.serving_speed import serving_speed
from planner.throughput.training_speed import training_speed
from planner.throughput.types import SpeedBand


@dataclass(frozen=True, slots=True)
class SpeedReadings:
    """Figures and bands by metric; a figure that is missing is not predicted."""

    figures: Mapping[str, float] = field(default_factory=dict)
    bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def speed_readings(plan: Plan, tables: Tables) -> SpeedReadings:
    """What a stopwatch would show of a plan.

    MFU and operations a second are left out: what a source counts as an operation is its own.

    Args:
        plan: A plan that trains or serves.
        tables: Cards, servers and the constants `speed_*`; without constants there is no figure.
    """
    if "speed_train_product_frac" not in tables.constants:
        return SpeedReadings()
    return _training(plan, tables) if plan.scenario.is_training else _serving(plan, tables)


def _training(plan: Plan, tables: Tables) -> SpeedReadings:
    found = training_speed(plan, tables)
    if found.step_time_s is None or found.tokens_per_s_per_gpu is None:
        return SpeedReadings()
    figures = {"step_time_s": found.step_time_s, "tokens_per_s_per_gpu": found.tokens_per_s_per_gpu}
    if found.band is None:
        return SpeedReadings(figures)
    rate = _of_rate(found.tokens_per_s_per_gpu, found.band)
    return SpeedReadings(
        figures, {"step_time_s": (found.band.low_s, found.band.high_s), "tokens_per_s_per_gpu": rate}
    )


def _serving(plan: Plan, tables: Tables) -> SpeedReadings:
    found = serving_speed(plan, tables)
    named = {
        "tpot_s": found.tpot_s,
        "ttft_s": found.ttft_s,
        "request_latency_s": found.request_latency_s,
        "output_tokens_per_s": found.output_tokens_per_s,
    }
    figures = {name: value for name, value in named.items() if value is not None}
    band = found.tokens_band
    if band is None:
        return SpeedReadings(figures)
    bands = {
        name: _of_rate(value, band) if name == "output_tokens_per_s" else _of_time(value, band)
        for name, value in figures.items()
    }
    if found.ttft_band is not None:
        bands["ttft_s"] = (found.ttft_band.low_s, found.ttft_band.high_s)
    return SpeedReadings(figures, bands)


def _of_time(value: float, band: SpeedBand) -> tuple[float, float]:
    return value * band.low_frac, value * band.high_frac


def _of_rate(value: float, band: SpeedBand) -> tuple[float, float]:
    """A rate is slow where its time is long."""
    return value / band.high_frac, value / band.low_frac
