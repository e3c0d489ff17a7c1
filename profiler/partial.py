"""A report of what a job had told before it ended early: killed, timed out, crashed. Nothing measured is lost."""

import datetime as dt
import platform
from collections.abc import Iterable, Mapping
from typing import Any

from profiler.documents import MeasuredPhase, Options, Remark
from profiler.events import PhasePeak
from profiler.job_types import Snapshot
from profiler.report import DeviceReadings, Environment, PhaseFigures, Report, StepTime


def partial_report(
    seen: Snapshot,
    scenario: Mapping[str, Any],
    config: Mapping[str, Any],
    options: Options,
    predicted_bytes: int | None = None,
) -> Report | None:
    """The phases that were measured so far, without what was alive in them; None if no phase was.

    Args:
        seen: The job as it ended.
        scenario: What it ran, every default filled in.
        config: The model's config.json keys.
        options: How it measured.
        predicted_bytes: Peak that the plan expected.
    """
    if not seen.peaks or seen.started is None:
        return None
    why = seen.reason.value if seen.reason is not None else ""
    return Report(
        created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        scenario=dict(scenario),
        config=dict(config),
        options=options,
        environment=Environment(
            device=seen.started.device,
            device_name=seen.started.device_name,
            python=platform.python_version(),
            torch=seen.started.torch,
            transformers="",
            system=platform.platform()[:300],
        ),
        outcome="interrupted",
        phases=_phases(seen.peaks),
        readings=DeviceReadings(
            peak_bytes=_most(sample.device_used_bytes for sample in seen.samples),
            process_peak_bytes=_most(sample.process_bytes for sample in seen.samples),
            resident_peak_bytes=_most(sample.resident_bytes for sample in seen.samples),
        ),
        samples=seen.samples,
        steps=tuple(
            StepTime(step=peak.step, phase=peak.phase, time_s=peak.time_s)
            for peak in seen.peaks
            if peak.phase != "rest"
        ),
        predicted_bytes=predicted_bytes,
        remarks=(Remark(code="job_ended_early", params={"reason": why, "detail": seen.detail[:300]}),),
    )


def _phases(peaks: Iterable[PhasePeak]) -> tuple[PhaseFigures, ...]:
    """Each phase as it was at its fullest, with the mean of its times."""
    by_phase: dict[MeasuredPhase, list[PhasePeak]] = {}
    for peak in peaks:
        by_phase.setdefault(peak.phase, []).append(peak)
    return tuple(_figures(phase, seen) for phase, seen in by_phase.items())


def _figures(phase: MeasuredPhase, seen: list[PhasePeak]) -> PhaseFigures:
    fullest = max(seen, key=lambda peak: peak.peak_allocated_bytes)
    return PhaseFigures(
        phase=phase,
        peak_allocated_bytes=fullest.peak_allocated_bytes,
        peak_reserved_bytes=fullest.peak_reserved_bytes,
        time_s=sum(peak.time_s for peak in seen) / len(seen),
    )


def _most(values: Any) -> int | None:
    return max((value for value in values if value is not None), default=None)
