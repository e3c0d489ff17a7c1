"""Fitted training constants, from one half, scored on the other: `python -m benchmarks.cross_validation`.

Runs with a reading outside the allocator (what the device held, or what was reserved) are divided twice: by source,
and the runs of the constants' own source by model, each time alternately in order of name. On each half every
constant is chosen by least mean error, sources weighing alike, one after the other until none changes; the other
half is scored with them. Beside it stands the error with the shipped constants, which saw all rows. A half without
a run that a constant decides leaves it as it is shipped.

`--write` keeps the figures in hardware_db/data/cross_validation.json, which the Method page shows.
"""

import argparse
import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, median
from types import MappingProxyType
from typing import Final

from benchmarks.in_sample import in_sample
from benchmarks.records import load
from hardware_db import DATA, load_tables
from hardware_db.scores import CrossSplit
from planner.accuracy.predict import predictor
from planner.accuracy.truth import Record
from planner.hardware import Tables
from planner.units import mib_bytes

METRICS: Final = ("device_used_bytes", "peak_reserved_bytes")
"""Readings that the constants decide, outermost first."""
GRIDS: Final[Mapping[str, Sequence[float]]] = {
    "allocator_retained_frac": [i / 20 for i in range(0, 21, 1)],
    "allocator_loaded_frac": [i / 20 for i in range(0, 21, 1)],
    "allocator_shared_frac": [i / 10 for i in range(11)],
    "training_modules_bytes": [mib_bytes(i) for i in range(0, 641, 20)],
}
"""Values tried for each constant; the steps are those of its entry in the constants file."""
MOST_ROUNDS: Final = 3
PATH: Final = DATA / "cross_validation.json"
COMMAND: Final = "python -m benchmarks.cross_validation"
SOURCE: Final = "source"
MODEL: Final = "model"
Name = Callable[[Record], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """What one half says about the other.

    Attributes:
        groups: Sources or models that are scored.
        constants: Fitted on the other half.
        errors: Absolute relative errors of this half with them, by source.
        shipped_errors: The same with the shipped constants.
    """

    groups: tuple[str, ...]
    constants: Mapping[str, float]
    errors: Mapping[str, tuple[float, ...]]
    shipped_errors: Mapping[str, tuple[float, ...]]


def reading(record: Record) -> str | None:
    """The outermost metric that the constants decide; None where nothing outside the allocator was read."""
    return next((name for name in METRICS if name in record.scored), None)


def source_of(record: Record) -> str:
    """What a record is divided by: its source."""
    return record.family


def model_of(record: Record) -> str:
    """What a record is divided by: its model."""
    if record.scenario is None:
        return ""
    choice = record.scenario.model
    named = (choice.config or {}).get("_name_or_path")
    return choice.id or str(named)


def halves(records: Sequence[Record], name: Name) -> tuple[list[Record], list[Record]]:
    """Runs by source or model, alternately in order of name."""
    first = set(sorted({name(record) for record in records})[::2])
    return [r for r in records if name(r) in first], [r for r in records if name(r) not in first]


def errors(records: Sequence[Record], tables: Tables) -> dict[str, tuple[float, ...]]:
    """|predicted / observed - 1| of each run, by source; none of a reading below what the job must hold."""
    predict = predictor(tables)
    found: dict[str, list[float]] = {}
    for record in records:
        metric = reading(record)
        if record.scenario is None or metric is None:
            continue
        figures = predict(record.scenario, record.rank).figures
        value, observed = figures.get(metric), record.scored[metric]
        if value is not None and observed >= (figures.get("least_bytes") or 0):
            found.setdefault(record.family, []).append(abs(value / observed - 1))
    return {family: tuple(values) for family, values in found.items()}


def mean_error(by_source: Mapping[str, Sequence[float]]) -> float:
    """Mean over the sources of their mean errors."""
    return fmean(fmean(values) for values in by_source.values())


def fitted(records: Sequence[Record], tables: Tables) -> dict[str, float]:
    """The constants with the least mean error, changed one at a time until none gets better.

    Of equally good values the shipped one is kept, so that what no run decides stays.
    """
    chosen = {name: tables.constants[name].value for name in GRIDS}
    for _ in range(MOST_ROUNDS):
        before = dict(chosen)
        for name, values in GRIDS.items():
            loss = _loss(records, tables, chosen, name)
            chosen[name] = min((chosen[name], *values), key=loss)
        if chosen == before:
            break
    return chosen


def _loss(
    records: Sequence[Record], tables: Tables, chosen: Mapping[str, float], name: str
) -> Callable[[float], float]:
    return lambda value: mean_error(errors(records, with_constants(tables, {**chosen, name: value})))


def with_constants(tables: Tables, values: Mapping[str, float]) -> Tables:
    """Tables with other values of some constants."""
    changed = {name: replace(tables.constants[name], value=value) for name, value in values.items()}
    return replace(tables, constants=MappingProxyType({**tables.constants, **changed}))


def cross_validated(records: Sequence[Record], tables: Tables, name: Name) -> tuple[Half, Half]:
    """Each half scored with constants fitted on the other."""
    left, right = halves(records, name)
    found = []
    for fit_on, score_on in ((left, right), (right, left)):
        constants = fitted(fit_on, tables)
        found.append(
            Half(
                groups=tuple(sorted({name(record) for record in score_on})),
                constants=constants,
                errors=errors(score_on, with_constants(tables, constants)),
                shipped_errors=errors(score_on, tables),
            )
        )
    return found[0], found[1]


def split_of(by: str, both: Sequence[Half]) -> CrossSplit:
    """The figures of both halves together; a source that stands in both is one."""
    held, shipped = (_joined([getattr(half, name) for half in both]) for name in ("errors", "shipped_errors"))
    return CrossSplit(
        by=by,
        runs=sum(map(len, held.values())),
        sources=len(held),
        mean_abs_error=round(mean_error(held), 4),
        median_abs_error=round(median(_all(held)), 4),
        shipped_mean_abs_error=round(mean_error(shipped), 4),
        shipped_median_abs_error=round(median(_all(shipped)), 4),
    )


def _joined(parts: Sequence[Mapping[str, tuple[float, ...]]]) -> dict[str, tuple[float, ...]]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: tuple(error for part in parts for error in part.get(name, ())) for name in names}


def _all(by_source: Mapping[str, Sequence[float]]) -> list[float]:
    return [error for values in by_source.values() for error in values]


def report(by: str, both: Sequence[Half]) -> list[str]:
    """One split for a terminal."""
    lines = []
    for i, half in enumerate(both, start=1):
        values = ", ".join(f"{name} {value:g}" for name, value in half.constants.items())
        lines.append(f"by {by}, half {i} ({', '.join(half.groups)}), fitted on the other: {values}")
        for family, found in half.errors.items():
            shipped = fmean(half.shipped_errors[family])
            lines.append(
                f"  {family:24} {len(found):4d} runs, mean {fmean(found):.2%}; shipped {shipped:.2%}"
            )
    total = split_of(by, both)
    lines.append(
        f"by {by}: {total.runs} runs, fitted on the other half: mean {total.mean_abs_error:.2%}, median"
        f" {total.median_abs_error:.2%}; shipped constants: mean {total.shipped_mean_abs_error:.2%}, median"
        f" {total.shipped_median_abs_error:.2%}"
    )
    return lines


def document(splits: Sequence[CrossSplit], made_on: str) -> str:
    """The file that the Method page reads."""
    content = {
        "made_on": made_on,
        "made_by": COMMAND,
        "constants": list(GRIDS),
        "splits": [asdict(s) for s in splits],
    }
    return json.dumps(content, indent=1) + "\n"


def write(splits: Sequence[CrossSplit], path: Path, made_on: str) -> None:
    """The file, the same bytes for the same figures on every system."""
    path.write_text(document(splits, made_on), encoding="utf-8", newline="\n")


def scored_records(tables: Tables) -> dict[str, list[Record]]:
    """Records of each split: every source's, and those of the sources that the constants were read from."""
    records = [r for r in load(("training.jsonl",)) if reading(r) is not None and r.scenario is not None]
    own = {
        name for item in in_sample(tables.constants, records) if item.name in GRIDS for name in item.families
    }
    return {SOURCE: records, MODEL: [record for record in records if record.family in own]}


def main() -> None:
    """Print both splits."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--date", default=dt.datetime.now(tz=dt.UTC).date().isoformat())
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {PATH.name}")
    options = parser.parse_args()
    tables, splits = load_tables(), []
    records = scored_records(tables)
    for by, name in ((SOURCE, source_of), (MODEL, model_of)):
        both = cross_validated(records[by], tables, name)
        splits.append(split_of(by, both))
        print("\n".join(report(by, both)), flush=True)
    if options.write:
        write(splits, PATH, options.date)


if __name__ == "__main__":
    main()
