"""An answer as lines of plain text and as JSON, for the command line."""

from collections.abc import Iterator
from typing import Any

from planner.units import MIB
from profiler.report import PhaseFigures
from profiler.trace.answer import Answer
from profiler.trace.record import Trace


def as_json(trace: Trace, seen: Answer, capacity_bytes: int | None) -> dict[str, Any]:
    """The answer as plain values."""
    return {
        "peak_allocated_bytes": seen.peak_allocated_bytes,
        "peak_reserved_bytes": seen.peak_reserved_bytes,
        "peak_tensor_bytes": seen.peak_tensor_bytes,
        "phase": seen.phase,
        "categories": seen.categories(),
        "seconds": round(trace.build_s + trace.trace_s, 3),
        "phases": {one.phase: _phase_json(one) for one in seen.phases},
        "largest": [] if seen.fullest is None else [note.model_dump() for note in seen.fullest.largest],
        "capacity_bytes": capacity_bytes,
        "ran_out": _ran_out_json(seen),
        "retries": seen.retries,
        "instant": None if trace.instant is None else trace.instant.model_dump(),
        "workspaces": [note.model_dump() for note in trace.workspaces],
        "resident_bytes": trace.peak_resident_bytes,
        "target": trace.target.model_dump(),
        "versions": trace.versions.model_dump(),
    }


def _phase_json(figures: PhaseFigures) -> dict[str, Any]:
    return {
        "peak_allocated_bytes": figures.peak_allocated_bytes,
        "peak_reserved_bytes": figures.peak_reserved_bytes,
        "groups": [group.model_dump() for group in figures.groups],
    }


def _ran_out_json(seen: Answer) -> dict[str, Any] | None:
    stop = seen.ran_out
    if stop is None:
        return None
    return {
        "step": stop.step,
        "phase": stop.phase,
        "module": stop.module,
        "op": stop.op,
        "cause": stop.at.cause,
        "requested_bytes": stop.at.requested_bytes,
        "allocated_bytes": stop.at.allocated_bytes,
        "reserved_bytes": stop.at.reserved_bytes,
    }


def lines(trace: Trace, seen: Answer, capacity_bytes: int | None) -> Iterator[str]:
    """Peaks by phase with their kinds, the largest tensors, and where the card runs out."""
    versions = trace.versions
    yield f"torch {versions.torch}, transformers {versions.transformers}; {len(trace.events)} events"
    yield from _instant_lines(trace)
    yield f"{'':34}{'allocated MiB':>15}{'reserved MiB':>15}"
    for figures in seen.phases:
        yield f"{figures.phase:34}{_mib(figures.peak_allocated_bytes)}{_mib(figures.peak_reserved_bytes or 0)}"
        for group in figures.groups:
            if group.layer == "allocated":
                yield f"  {group.name:32}{_mib(group.bytes)}"
    yield f"{'whole run, from the first step':34}{_mib(seen.peak_allocated_bytes)}{_mib(seen.peak_reserved_bytes)}"
    for note in seen.fullest.largest if seen.fullest else ():
        shape = "x".join(map(str, note.shape))
        yield f"  {_mib(note.bytes)} MiB  {note.name}  {note.module}  {note.op}  {shape} {note.dtype}".rstrip()
    yield from _card_lines(seen, capacity_bytes)


def _instant_lines(trace: Trace) -> Iterator[str]:
    instant = trace.instant
    if instant is None:
        return
    if instant.code:
        yield f"all layers run: {instant.code} {instant.detail}".rstrip()
    else:
        yield f"extended from {' and '.join(map(str, instant.layers))} layers, period {instant.period}"


def _card_lines(seen: Answer, capacity_bytes: int | None) -> Iterator[str]:
    if capacity_bytes is None:
        return
    stop = seen.ran_out
    if stop is None:
        yield f"runs with {_mib(capacity_bytes).strip()} MiB for the allocator"
        return
    yield (
        f"runs out ({stop.at.cause}) of {_mib(capacity_bytes).strip()} MiB in step {stop.step}, {stop.phase}:"
        f" {_mib(stop.at.requested_bytes).strip()} MiB for {stop.op} in {stop.module or 'no module'}"
    )


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:>15.2f}"
