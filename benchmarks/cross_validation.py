"""Fitted training constants, from half of the models, scored on the other: `python -m benchmarks.cross_validation`.

The runs that the constants were read from are divided by model, alternately in order of name. On each half every
constant is chosen by least mean error of the device's used bytes, one after the other until none changes; the other
half is scored with them. Beside it stands the error with the shipped constants, which saw all rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from types import MappingProxyType
from typing import Final

from benchmarks.records import load
from hardware_db import load_tables
from planner.hardware import Tables
from planner.predict import predictor
from planner.truth import Record
from planner.units import mib_bytes

METRIC: Final = "device_used_bytes"
GRIDS: Final[Mapping[str, Sequence[float]]] = {
    "allocator_retained_frac": [i / 20 for i in range(0, 21, 1)],
    "allocator_loaded_frac": [i / 20 for i in range(0, 21, 1)],
    "allocator_shared_frac": [i / 10 for i in range(11)],
    "training_modules_bytes": [mib_bytes(i) for i in range(0, 641, 20)],
}
"""Values tried for each constant; the steps are those of its entry in the constants file."""
MOST_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """What one half says about the other.

    Attributes:
        constants: Fitted on the other half.
        errors: Absolute relative errors of this half with them.
        shipped_errors: The same with the shipped constants.
    """

    constants: Mapping[str, float]
    errors: tuple[float, ...]
    shipped_errors: tuple[float, ...]


def halves(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """Runs by model, alternately in order of name."""
    names = sorted({_model(record) for record in records})
    first = set(names[::2])
    return [r for r in records if _model(r) in first], [r for r in records if _model(r) not in first]


def _model(record: Record) -> str:
    if record.scenario is None:
        return ""
    choice = record.scenario.model
    named = (choice.config or {}).get("_name_or_path")
    return choice.id or str(named)


def errors(records: Sequence[Record], tables: Tables) -> tuple[float, ...]:
    """|predicted / observed - 1| of each run."""
    predict, found = predictor(tables), []
    for record in records:
        if record.scenario is not None:
            value = predict(record.scenario, record.rank).figures.get(METRIC)
            if value is not None:
                found.append(abs(value / record.scored[METRIC] - 1))
    return tuple(found)


def fitted(records: Sequence[Record], tables: Tables) -> dict[str, float]:
    """The constants with the least mean error, changed one at a time until none gets better."""
    chosen = {name: tables.constants[name].value for name in GRIDS}
    for _ in range(MOST_ROUNDS):
        before = dict(chosen)
        for name, values in GRIDS.items():
            chosen[name] = min(values, key=_loss(records, tables, chosen, name))
        if chosen == before:
            break
    return chosen


def _loss(
    records: Sequence[Record], tables: Tables, chosen: Mapping[str, float], name: str
) -> Callable[[float], float]:
    return lambda value: fmean(errors(records, with_constants(tables, {**chosen, name: value})))


def with_constants(tables: Tables, values: Mapping[str, float]) -> Tables:
    """Tables with other values of some constants."""
    changed = {name: replace(tables.constants[name], value=value) for name, value in values.items()}
    return replace(tables, constants=MappingProxyType({**tables.constants, **changed}))


def cross_validated(records: Sequence[Record], tables: Tables) -> tuple[Half, Half]:
    """Each half scored with constants fitted on the other."""
    left, right = halves(records)
    found = []
    for fit_on, score_on in ((left, right), (right, left)):
        constants = fitted(fit_on, tables)
        found.append(
            Half(
                constants=constants,
                errors=errors(score_on, with_constants(tables, constants)),
                shipped_errors=errors(score_on, tables),
            )
        )
    return found[0], found[1]


def main() -> None:
    """Print both halves and all rows together."""
    tables = load_tables()
    records = [r for r in load(("training.jsonl",)) if METRIC in r.scored and r.scenario is not None]
    both = cross_validated(records, tables)
    for i, half in enumerate(both, start=1):
        values = ", ".join(f"{name} {value:g}" for name, value in half.constants.items())
        print(f"half {i}: {len(half.errors)} runs, fitted on the other: {values}")
    for title, pick in (("fitted on the other half", "errors"), ("shipped constants", "shipped_errors")):
        found = [error for half in both for error in getattr(half, pick)]
        print(f"{title}: mean {fmean(found):.2%}, median {median(found):.2%} over {len(found)} runs")


if __name__ == "__main__":
    main()
