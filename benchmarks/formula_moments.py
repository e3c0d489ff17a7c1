"""What the formulas say of every moment of a phase, for the comparison of categories.

A phase is as full as its fullest moment. Where two moments are equally full to within the limit that is asked of a
peak, the formulas do not tell which of them the trace has caught: any of them stands for the peak, and what it is made
of is compared with the one that is nearest.
"""

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.formula_records import Sums
from hardware_db import load_tables
from planner.estimate import plan
from planner.hardware import Tables
from planner.ledger import TRAINING_PHASES, Entry, Layer, Ledger, Phase
from planner.moments import all_moments
from planner.scenario import Scenario


def moments_of(scenario: Scenario, tables: Tables | None = None) -> dict[str, tuple[Sums, ...]]:
    """Allocated bytes by category of every moment of every phase, the fullest first."""
    with all_moments():
        ledger = plan(scenario, tables or load_tables()).worst.ledger
    return {phase.value: _moments(ledger, phase) for phase in TRAINING_PHASES}


def _moments(ledger: Ledger, phase: Phase) -> tuple[Sums, ...]:
    alive = [e for e in ledger.entries if phase in e.phases and e.layer is Layer.ALLOCATED]
    numbers = sorted({e.moment for e in alive} | {()})
    leaves = [n for n in numbers if not any(m != n and m[: len(n)] == n for m in numbers)]
    found = [_summed(e for e in alive if number[: len(e.moment)] == e.moment) for number in leaves]
    return tuple(sorted(found, key=lambda sums: -sums.bytes))


def _summed(entries: Iterable[Entry]) -> Sums:
    totals: dict[str, int] = {}
    for entry in entries:
        totals[entry.category.value] = totals.get(entry.category.value, 0) + entry.bytes
    return Sums(categories=totals)


def nearest(moments: Sequence[Sums], traced: Sums, tie: float) -> Mapping[str, int]:
    """Of the moments that are within `tie` of the fullest the one whose categories are nearest to a trace's."""
    equal = [one for one in moments if one.bytes >= moments[0].bytes * (1 - tie)]

    def gap(one: Sums) -> int:
        names = one.categories.keys() | traced.categories.keys()
        return max(abs(one.categories.get(name, 0) - traced.categories.get(name, 0)) for name in names)

    return min(equal, key=gap).categories
