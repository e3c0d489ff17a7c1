"""Makes hardware_db/data/bands.csv from published measurements: `python -m benchmarks.bands`.

For every run the ratios observed / predicted of its peak, by layer: what PyTorch had allocated, what it had
reserved, what the device held. A band row holds the split-conformal interval of the ratios at 90 %, corrected
for their number: 5 % to each side where there are enough runs for that (19), else the radius around 1 on a log
scale. Rows for `*` (any runtime) are what a runtime without enough runs gets: a source that has not been seen. They
weigh every source alike, so that the largest file does not decide for the rest, and are the radius that holds 90 % of
that weight (pooled distributions of a two-layer hierarchy: Dunn, Wasserman and Ramdas 2023). As few sources say
nothing about the next one, a task has such a row with `MIN_ROWS` sources or more, and all training rests on its own
side of the allocator if that has as many, else on every reading. `beyond` is what lies outside the
allocator: the device's ratio over the allocator's, from runs that give both. No interval ends nearer to 1 than
3 %: what a source does alike in all its runs says little about the next. A run that was read at less than what
it must hold at once as stated (the rest and the inputs kept for checkpointing) stands behind no band.

The same run prints how often a band made without a source holds that source's runs.
"""

import argparse
import csv
import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Final

from benchmarks.records import MEMORY_FILES, load
from hardware_db import DATA, load_tables
from planner.bands import (
    ALLOCATED_LAYER,
    ANY_RUNTIME,
    ANY_TRAINING,
    BEYOND,
    COVERAGE_FRAC,
    DEVICE_LAYER,
    MIN_ROWS,
    RESERVED_LAYER,
    UNNAMED_LAYER,
    basis_order,
)
from planner.predict import Predictor, predictor
from planner.truth import Record

PEAK_ORDER: Final = (
    "device_used_bytes",
    "peak_reserved_bytes",
    "peak_unknown_bytes",
    "peak_active_bytes",
    "peak_allocated_bytes",
)
"""Outermost first: the nearest to what decides whether a job fits."""

LAYERS: Final = {
    "device_used_bytes": DEVICE_LAYER,
    "peak_reserved_bytes": RESERVED_LAYER,
    "peak_active_bytes": ALLOCATED_LAYER,
    "peak_allocated_bytes": ALLOCATED_LAYER,
    "peak_unknown_bytes": UNNAMED_LAYER,
}
"""What a reading's layer is. Peaks whose tool is not named stand behind bands of their own alone."""
OUTER: Final = (DEVICE_LAYER, RESERVED_LAYER)

SERVING_PARTS: Final = ("activation_peak_bytes", "non_torch_bytes", "compute_buffer_bytes", "state_bytes")
KV_PARTS: Final = ("kv_bytes", "kv_and_state_bytes")
FIXED_POOL: Final = frozenset({"llama_cpp", "ollama", "ik_llama_cpp"})
"""Engines whose KV cache is what was asked for; the others fill what the budget leaves."""

COLUMNS: Final = ("runtime", "task", "layer", "n_rows", "low_frac", "high_frac", "made_on", "how")
HOW: Final = "split-conformal interval of observed / predicted at 90 %; python -m benchmarks.bands"
NEAREST_FRAC: Final = 0.03
"""No interval ends nearer to 1 than this."""
SLACK: Final = 1e-9
"""Sums of equal weights miss whole numbers by less than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Observed / predicted of one run, in one layer."""

    family: str
    runtime: str
    task: str
    value: float
    layer: str = DEVICE_LAYER


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """A band row: which runs it is for, how many stand behind it, and the ends of its interval."""

    runtime: str
    task: str
    layer: str = DEVICE_LAYER
    num_rows: int
    low: float
    high: float


def ratios(records: Iterable[Record], predict: Predictor) -> list[Ratio]:
    """One ratio for every run that has a peak and a prediction, of the outermost reading there is."""
    return _averaged(records, predict, _parts)


def layer_ratios(records: Iterable[Record], predict: Predictor) -> list[Ratio]:
    """The ratios behind the bands: a training run gives one for each layer it was read in, and `beyond` if two."""
    members = list(records)
    found = [ratio for name in LAYERS for ratio in _averaged(members, predict, partial(_own, name))]
    found += [ratio for ratio in _averaged(members, predict, _parts) if ratio.task == "serve"]
    return [*found, *_beyond(members, predict)]


def _own(name: str, record: Record) -> tuple[str, ...]:
    """One peak of a training run; a device's reading decides before what was only reserved."""
    training = record.scenario is not None and record.scenario.is_training
    return (name,) if training and name in record.scored else ()


def _beyond(records: Iterable[Record], predict: Predictor) -> list[Ratio]:
    found = []
    for record in records:
        inner = next((n for n in ("peak_allocated_bytes", "peak_active_bytes") if n in record.scored), None)
        outer = next((n for n in PEAK_ORDER[:2] if n in record.scored), None)
        if record.scenario is None or inner is None or outer is None:
            continue
        within, whole = (_ratio(record, predict, (name,)) for name in (inner, outer))
        if within and whole:
            value, name = whole / within, record.scenario.runtime.name
            found.append(
                Ratio(family=record.family, runtime=name, task=ANY_TRAINING, value=value, layer=BEYOND)
            )
    return found


def _averaged(
    records: Iterable[Record], predict: Predictor, parts: Callable[[Record], tuple[str, ...]]
) -> list[Ratio]:
    """One ratio for every run; records of one group are averaged."""
    runs: dict[str, list[tuple[Record, float]]] = {}
    for record in records:
        value = _ratio(record, predict, parts(record))
        if value is not None:
            runs.setdefault(record.group or f"record {record.id}", []).append((record, value))
    found: list[Ratio] = []
    for members in runs.values():
        first, scenario = members[0][0], members[0][0].scenario
        if scenario is not None:
            value = fmean(value for _, value in members)
            name, task = scenario.runtime.name, scenario.task
            layer = LAYERS[parts(first)[0]] if scenario.is_training else DEVICE_LAYER
            found.append(Ratio(family=first.family, runtime=name, task=task, value=value, layer=layer))
    return found


def _ratio(record: Record, predict: Predictor, wanted: tuple[str, ...]) -> float | None:
    if record.scenario is None or not wanted:
        return None
    figures = predict(record.scenario, record.rank).figures
    predicted = [figures.get(name) for name in wanted]
    known = [value for value in predicted if value is not None]
    if len(known) < len(wanted) or not sum(known):
        return None
    observed = sum(record.scored[name] for name in wanted)
    return None if observed < (figures.get("least_bytes") or 0) else observed / sum(known)


def _parts(record: Record) -> tuple[str, ...]:
    """The observed fields whose sum is what the device held."""
    scenario = record.scenario
    if scenario is None:
        return ()
    if scenario.is_training:
        return next(((name,) for name in PEAK_ORDER if name in record.scored), ())
    if "weights_bytes" not in record.scored:
        return ()
    cache = KV_PARTS if scenario.runtime.name in FIXED_POOL else ()
    others = tuple(name for name in (*SERVING_PARTS, *cache) if name in record.scored)
    return ("weights_bytes", *others) if others else ()


def widths(found: Iterable[Ratio]) -> list[Width]:
    """Every row of the table: each runtime and task with enough runs, each task, all training; by layer.

    A runtime whose device was never read stands in the device's layer with what it had reserved.
    """
    by_key: dict[tuple[str, str, str], list[Ratio]] = {}
    found = list(found)
    for ratio in found:
        for runtime, task, layer in _keys(ratio):
            by_key.setdefault((runtime, task, layer), []).append(ratio)
    rows: list[Width] = []
    for (runtime, task, layer), own in sorted(by_key.items()):
        if runtime != ANY_RUNTIME and len(own) < MIN_ROWS:
            continue
        members = own
        if runtime == ANY_RUNTIME and layer != BEYOND:
            members = _of_many_sources(own, found)
            if task not in {ANY_TRAINING, "serve"} and len(_sources(members)) < MIN_ROWS:
                continue
            low, high = unseen(members)
        else:
            low, high = interval(_weighted(members, by_source=runtime == ANY_RUNTIME))
        low, high = min(low, 1 - NEAREST_FRAC), max(high, 1 + NEAREST_FRAC)
        rows.append(Width(runtime=runtime, task=task, layer=layer, num_rows=len(members), low=low, high=high))
    return rows


def _sources(members: Iterable[Ratio]) -> frozenset[str]:
    return frozenset(member.family for member in members)


def _of_many_sources(members: list[Ratio], found: list[Ratio]) -> list[Ratio]:
    """The runs of a row, or those of training as a whole where a layer has too few sources to speak for the next."""
    whole = members[0].task != "serve" and len({member.task for member in members}) > 1
    if not whole or len(_sources(members)) >= MIN_ROWS:
        return members
    outer = members[0].layer in OUTER
    training = [ratio for ratio in found if ratio.task != "serve" and ratio.layer != BEYOND]
    side = [ratio for ratio in training if (ratio.layer in OUTER) == outer and ratio.layer != UNNAMED_LAYER]
    return side if len(_sources(side)) >= MIN_ROWS else training


def unseen(members: list[Ratio]) -> tuple[float, float]:
    """[1/q, q], which holds 90 % of the ratios, every source weighing alike: for a run of a source not among them."""
    distances = sorted((abs(math.log(value)), weight) for value, weight in _weighted(members, by_source=True))
    factor = math.exp(_reached(distances, COVERAGE_FRAC * len(_sources(members))))
    return 1 / factor, factor


def _keys(ratio: Ratio) -> Iterable[tuple[str, str, str]]:
    if ratio.layer == BEYOND:
        yield ANY_RUNTIME, ANY_TRAINING, BEYOND
        return
    layers = OUTER if ratio.layer == RESERVED_LAYER else (ratio.layer,)
    for _, runtime, task in basis_order(ratio.runtime, ratio.task):
        for layer in layers:
            yield runtime, task, layer


def _weighted(members: list[Ratio], *, by_source: bool) -> list[tuple[float, float]]:
    counts = Counter(member.family for member in members)
    return [(member.value, 1 / counts[member.family] if by_source else 1.0) for member in members]


def interval(weighted: list[tuple[float, float]]) -> tuple[float, float]:
    """The interval that holds 90 % of the next ratio, by the weights and one more unit of weight for it.

    1 always lies inside, so that a prediction lies in its own band. Where the weights are too few for a tail
    on each side it is [1/q, q]; where they are too few for that as well, q is the furthest there is.

    Args:
        weighted: (ratio, weight) pairs.
    """
    total = sum(weight for _, weight in weighted)
    tail = (1 - COVERAGE_FRAC) / 2 * (total + 1)
    if tail >= 1 - SLACK:
        low = _within(sorted(weighted), tail)
        high = _within(sorted(weighted, reverse=True), tail)
        return min(low, 1.0), max(high, 1.0)
    distances = sorted((abs(math.log(value)), weight) for value, weight in weighted)
    factor = math.exp(_reached(distances, COVERAGE_FRAC * (total + 1)))
    return 1 / factor, factor


def _within(ordered: list[tuple[float, float]], tail: float) -> float:
    """The last value at which the weights before it and its own stay within `tail`."""
    total, found = 0.0, ordered[0][0]
    for value, weight in ordered:
        total += weight
        if total > tail + SLACK:
            break
        found = value
    return found


def _reached(ordered: list[tuple[float, float]], wanted: float) -> float:
    """The first value at which the weights before it and its own add up to `wanted`; else the last."""
    total = 0.0
    for value, weight in ordered:
        total += weight
        if total >= wanted - SLACK:
            return value
    return ordered[-1][0]


def held_out_runs(found: list[Ratio]) -> list[tuple[Ratio, bool]]:
    """Every run, and whether it lies inside a band that was made without its source, in its own layer."""
    judged: list[tuple[Ratio, bool]] = []
    for family in sorted({ratio.family for ratio in found}):
        rows = {(w.runtime, w.task, w.layer): w for w in widths(r for r in found if r.family != family)}
        for ratio in (r for r in found if r.family == family and r.layer != BEYOND):
            row = _answering(ratio, rows)
            judged.append((ratio, row is not None and row.low <= ratio.value <= row.high))
    return judged


def _answering(ratio: Ratio, rows: Mapping[tuple[str, str, str], Width]) -> Width | None:
    for _, runtime, task in basis_order(ratio.runtime, ratio.task):
        if (runtime, task, ratio.layer) in rows:
            return rows[runtime, task, ratio.layer]
    return None


def held_out(found: list[Ratio]) -> dict[tuple[str, str], tuple[int, int]]:
    """For each runtime and task: runs inside a band that was made without their source, and runs in all."""
    counts: dict[tuple[str, str], list[int]] = {}
    for ratio, inside in held_out_runs(found):
        tally = counts.setdefault((ratio.runtime, ratio.task), [0, 0])
        tally[0] += inside
        tally[1] += 1
    return {key: (tally[0], tally[1]) for key, tally in counts.items()}


def write(rows: Iterable[Width], path: Path, made_on: str) -> None:
    """The table as CSV, the same bytes for the same rows."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            low, high = f"{row.low:.4f}", f"{row.high:.4f}"
            writer.writerow([row.runtime, row.task, row.layer, row.num_rows, low, high, made_on, HOW])


def report(rows: Iterable[Width], held: Mapping[tuple[str, str], tuple[int, int]]) -> list[str]:
    """What the run found, for a terminal."""
    lines = [
        f"{row.runtime:14} {row.task:9} {row.layer:9} {row.num_rows:5d} runs  {row.low:.3f} to {row.high:.3f}"
        for row in rows
    ]
    lines.append("held out by source:")
    lines.extend(
        f"{key[0]:14} {key[1]:9} {inside:5d} of {total}" for key, (inside, total) in sorted(held.items())
    )
    inside, total = (sum(pair[i] for pair in held.values()) for i in (0, 1))
    lines.append(f"all: {inside} of {total} ({inside / max(total, 1):.1%})")
    return lines


def main() -> None:
    """Make the table again and print what it rests on."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bands", description=__doc__)
    parser.add_argument("--date", default=dt.datetime.now(tz=dt.UTC).date().isoformat())
    parser.add_argument("--dry-run", action="store_true", help="print, write nothing")
    options = parser.parse_args()
    found = layer_ratios(load(MEMORY_FILES), predictor(load_tables()))
    rows = widths(found)
    if not options.dry_run:
        write(rows, DATA / "bands.csv", options.date)
    for line in report(rows, held_out(found)):
        print(line)


if __name__ == "__main__":
    main()
