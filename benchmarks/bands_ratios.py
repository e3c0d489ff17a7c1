"""What was observed over what is predicted, of every run and layer that a published measurement was read in.

A run read in two layers (live tensors and the whole device, say) gives a ratio in each; the outermost is the one
that decides whether the job fits, and the one by which a run is counted. `beyond` is what lies outside the
allocator: the outer ratio over the allocator's, of a run that gives both.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from planner.accuracy.bands import (
    ALLOCATED_LAYER,
    ANY_TRAINING,
    BEYOND,
    DEVICE_LAYER,
    OUTER_LAYERS,
    RESERVED_LAYER,
    UNNAMED_LAYER,
)
from planner.accuracy.predict import Figure, Predictor
from planner.accuracy.truth import Record

LAYERS: Final = {
    "device_used_bytes": DEVICE_LAYER,
    "peak_reserved_bytes": RESERVED_LAYER,
    "peak_unknown_bytes": UNNAMED_LAYER,
    "peak_active_bytes": ALLOCATED_LAYER,
    "peak_allocated_bytes": ALLOCATED_LAYER,
}
"""What a reading's layer is, outermost first. Peaks whose tool is not named have a layer of their own."""

SERVING_PARTS: Final = ("activation_peak_bytes", "non_torch_bytes", "compute_buffer_bytes", "state_bytes")
KV_PARTS: Final = ("kv_bytes", "kv_and_state_bytes")
FIXED_POOL: Final = frozenset({"llama_cpp", "ollama", "ik_llama_cpp"})
"""Engines whose KV cache is what was asked for; the others fill what the budget leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Observed / predicted of one run, in one layer.

    Attributes:
        family: Its source by short name.
        outermost: Whether no layer further out was read: the run is counted by this one.
        possible: Whether it was read at no less than what it must hold at once as stated (the rest, and the inputs
            kept for checkpointing). What was read at less is counted, and stands behind no band.
        apart: Logarithm of what the device is predicted to hold over what the allocator is: how far a reading may be
            off because it is not said which of the two it is.
    """

    family: str
    runtime: str
    task: str
    value: float
    layer: str = DEVICE_LAYER
    outermost: bool = True
    possible: bool = True
    apart: float = 0.0


@dataclass(frozen=True, slots=True)
class _Reading:
    record: Record
    value: float
    possible: bool
    apart: float


def layer_ratios(records: Iterable[Record], predict: Predictor) -> list[Ratio]:
    """A ratio for each run and layer it was read in, and one `beyond` it for a run read inside and out.

    Records of one group are one run: their ratios are averaged.
    """
    runs: dict[str, dict[str, list[_Reading]]] = {}
    for record in records:
        for layer, reading in _readings(record, predict):
            of_run = runs.setdefault(record.group or f"record {record.id}", {})
            of_run.setdefault(layer, []).append(reading)
    found = [ratio for of_run in runs.values() for ratio in _ratios(of_run)]
    return [*found, *(ratio for of_run in runs.values() for ratio in _beyond(of_run))]


def _readings(record: Record, predict: Predictor) -> Iterable[tuple[str, _Reading]]:
    if record.scenario is None:
        return
    wanted = _parts(record)
    figures = predict(record.scenario, record.rank).figures if wanted else {}
    for layer, names in wanted:
        predicted = _sum_of(names, figures)
        if predicted:
            observed = sum(record.scored[name] for name in names)
            possible = observed >= (figures.get("least_bytes") or 0)
            yield layer, _Reading(record, observed / predicted, possible, _apart(figures))


def _apart(figures: Mapping[str, Figure]) -> float:
    device, reserved = figures.get("device_used_bytes"), figures.get("peak_reserved_bytes")
    return math.log(device / reserved) if device and reserved else 0.0


def _sum_of(names: tuple[str, ...], figures: Mapping[str, Figure]) -> float:
    """The predicted figures together; 0 where one of them is missing."""
    known = [value for name in names if (value := figures.get(name)) is not None]
    return sum(known) if len(known) == len(names) else 0


def _parts(record: Record) -> list[tuple[str, tuple[str, ...]]]:
    """Layer and observed fields whose sum is what it held: every peak of training, one sum of a server."""
    scenario = record.scenario
    if scenario is None:
        return []
    if scenario.is_training:
        return [(layer, (name,)) for name, layer in LAYERS.items() if name in record.scored]
    cache = KV_PARTS if scenario.runtime.name in FIXED_POOL else ()
    others = tuple(name for name in (*SERVING_PARTS, *cache) if name in record.scored)
    return [(DEVICE_LAYER, ("weights_bytes", *others))] if others and "weights_bytes" in record.scored else []


def _ratios(of_run: dict[str, list[_Reading]]) -> Iterable[Ratio]:
    outermost = next(layer for layer in LAYERS.values() if layer in of_run)
    for layer, readings in of_run.items():
        yield _ratio(
            layer,
            readings[0].record,
            fmean(reading.value for reading in readings),
            outermost=layer == outermost,
            possible=all(reading.possible for reading in readings),
            apart=fmean(reading.apart for reading in readings),
        )


def _ratio(
    layer: str, record: Record, value: float, *, outermost: bool, possible: bool, apart: float = 0.0
) -> Ratio:
    scenario = record.scenario
    if scenario is None:
        raise ValueError(f"{record.id}: no scenario")
    task = ANY_TRAINING if layer == BEYOND else scenario.task
    return Ratio(
        family=record.family,
        runtime=scenario.runtime.name,
        task=task,
        value=value,
        layer=layer,
        outermost=outermost,
        possible=possible,
        apart=apart,
    )


def _beyond(of_run: dict[str, list[_Reading]]) -> Iterable[Ratio]:
    inner = of_run.get(ALLOCATED_LAYER)
    outer = next((of_run[layer] for layer in OUTER_LAYERS if layer in of_run), None)
    if inner and outer and all(reading.possible for reading in (*inner, *outer)):
        value = fmean(reading.value for reading in outer) / fmean(reading.value for reading in inner)
        yield _ratio(BEYOND, outer[0].record, value, outermost=False, possible=True)
