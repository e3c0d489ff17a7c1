"""The training formulas beside traces: `python -m benchmarks.formula_trace [WORD ...]`.

Steps of `benchmarks.formula_cases` are traced in a child process (instant mode, one child for all, memory limited) and
held against the ledger of their plans: the peak of what PyTorch counts as allocated, every phase's, and the categories
at the peak. Every third step is traced anew, and the others are held against `benchmarks.formula_records`; `--all`
traces every one (about half an hour), words those whose name has one of them. `--record` writes what was traced to the
records; `--keep FOLDER` reads traces that lie there, and leaves those it makes.

Ends with 1 if fewer than 95 % of the steps are within 0.5 %, or any is beyond 2 %, by total or by category, if a step
has no trace, or if a trace is no longer what was recorded of it with the same libraries.

Errors are the formula's less the trace's, of the trace's. The allocator's rounding of single blocks (to 512 bytes, and
of pieces too small to cut off) is no tensor: it is left out of both sides, and shown. A category is measured by its own
bytes, but by no less than a twentieth of the peak: what is smaller cannot matter.
"""

import argparse
import json
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.formula_cases import Case, cases
from benchmarks.formula_moments import moments_of, nearest
from benchmarks.formula_records import Sums, Traced, installed, read_records, write_records
from hardware_db import load_tables
from planner.estimate import plan
from planner.hardware import Tables
from planner.ledger import TRAINING_PHASES, Category, Layer, Ledger
from planner.scenario import Scenario
from profiler.trace.request import ask

ROOT: Final = Path(__file__).parent.parent
CHILD: Final = (sys.executable, "-m", "benchmarks.formula_trace_child")
CAPABILITY: Final = (9, 0)
NEAR: Final = 0.005
NEAR_SHARE: Final = 0.95
FAR: Final = 0.02
LEAST_SHARE: Final = 0.05
"""Share of the peak that a category is measured by at the least."""

HANG_S: Final = 1800.0
"""A child that says nothing for so long hangs: it is ended."""

EVERY: Final = 3
"""Of so many steps one is traced where nothing is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One step.

    Attributes:
        name: As in the cases.
        traced: By phase.
        predicted: By phase.
        moments: Of the trace's fullest phase, every moment that the formulas know, the fullest first.
        rounding_bytes: What the allocator's rounding adds at the traced peak.
    """

    name: str
    traced: dict[str, Sums]
    predicted: dict[str, Sums]
    rounding_bytes: int
    moments: tuple[Sums, ...] = ()

    @property
    def peak_phase(self) -> str:
        """The trace's fullest phase."""
        return max(self.traced, key=lambda phase: self.traced[phase].bytes)

    @property
    def error(self) -> float:
        """Of the peak."""
        return max(s.bytes for s in self.predicted.values()) / self.traced[self.peak_phase].bytes - 1

    def phase_error(self, phase: str) -> float:
        """Of a phase's peak."""
        return self.predicted[phase].bytes / self.traced[phase].bytes - 1

    def category_errors(self) -> dict[str, float]:
        """Of each category at the traced peak."""
        found = self.traced[self.peak_phase]
        said = nearest(self.moments or (self.predicted[self.peak_phase],), found, NEAR)
        least = LEAST_SHARE * found.bytes
        return {
            category: (said.get(category, 0) - found.categories.get(category, 0))
            / max(found.categories.get(category, 0), least)
            for category in sorted(found.categories.keys() | said.keys())
        }

    @property
    def worst_phase(self) -> str:
        """The phase that is furthest off."""
        return max(self.traced, key=lambda phase: abs(self.phase_error(phase)))

    @property
    def worst_category(self) -> tuple[str, float]:
        """The category that is furthest off."""
        return max(self.category_errors().items(), key=lambda item: abs(item[1]))


class Tracer:
    """A child that traces one step after another; a new one where it has ended."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._child: subprocess.Popen[str] | None = None

    def figures(self, case: Case, tables: Tables) -> dict[str, Any]:
        """What the child says of a step, or what lies in the folder."""
        kept = None if self._folder is None else self._folder / f"{case.name}.json"
        if kept is not None and kept.exists():
            found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
            return found
        found = self._ask(case, tables)
        if kept is not None and "phases" in found:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found), encoding="utf-8")
        return found

    def _ask(self, case: Case, tables: Tables) -> dict[str, Any]:
        asked = ask(plan(Scenario.model_validate(case.scenario), tables), CAPABILITY)
        if asked.refused:
            return {"refused": str(asked.refused)}
        if self._child is None or self._child.poll() is not None:
            self._child = subprocess.Popen(
                CHILD, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
            )
        question = {
            "scenario": asked.scenario,
            "config": asked.config,
            "target": asked.options.target.model_dump(mode="json"),
        }
        assert self._child.stdin is not None  # noqa: S101  # piped above
        assert self._child.stdout is not None  # noqa: S101
        self._child.stdin.write(json.dumps(question) + "\n")
        self._child.stdin.flush()
        guard = threading.Timer(HANG_S, self._child.kill)
        guard.start()
        line = self._child.stdout.readline()
        guard.cancel()
        if not line:
            return {"failed": f"the child ended with {self._child.wait()}"}
        answered: dict[str, Any] = json.loads(line)
        return answered

    def close(self) -> None:
        """End the child."""
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()
            self._child.wait()
            if self._child.stdout is not None:
                self._child.stdout.close()


def predicted_sums(ledger: Ledger) -> dict[str, Sums]:
    """What the formulas say of every phase."""
    return {
        phase.value: Sums(
            categories={c.value: n for c, n in ledger.by_category(phase, Layer.ALLOCATED).items()}
        )
        for phase in TRAINING_PHASES
    }


def compare(case: Case, trace: Traced, tables: Tables) -> Compared:
    """A step's formulas beside its trace."""
    scenario = Scenario.model_validate(case.scenario)
    answer = plan(scenario, tables)
    peak = max(trace.phases, key=lambda phase: trace.phases[phase].bytes)
    return Compared(
        name=case.name,
        traced=trace.phases,
        predicted=predicted_sums(answer.worst.ledger),
        rounding_bytes=trace.rounding_bytes[peak],
        moments=moments_of(scenario, tables)[peak],
    )


def traces(wanted: Iterable[Case], folder: Path | None = None) -> Iterator[tuple[Case, Traced | str]]:
    """Every step's trace in turn; why there is none where there is none."""
    tables, tracer = load_tables(), Tracer(folder)
    try:
        for case in wanted:
            found = tracer.figures(case, tables)
            said = f"{case.name}: {found.get('refused') or found.get('failed')}"
            yield case, Traced.of(found["phases"]) if "phases" in found else said
    finally:
        tracer.close()


def compared(wanted: Iterable[Case], folder: Path | None = None) -> Iterator[Compared | str]:
    """Every step's formulas beside a trace made for it; why there is none where there is none."""
    tables = load_tables()
    for case, trace in traces(wanted, folder):
        yield trace if isinstance(trace, str) else compare(case, trace, tables)


def recorded() -> tuple[list[Compared], list[Case]]:
    """Formulas beside the records, and the steps that have none."""
    tables, (records, _) = load_tables(), read_records()
    rows = [compare(case, records[case.name], tables) for case in cases() if case.name in records]
    return rows, [case for case in cases() if case.name not in records]


def line(row: Compared) -> str:
    """A step in words."""
    category, off = row.worst_category
    return (
        f"{row.name:86} {row.traced[row.peak_phase].bytes / 1e9:8.2f} GB {row.error:+8.3%}  "
        f"{row.worst_phase:14} {row.phase_error(row.worst_phase):+8.3%}  {category:17} {off:+8.3%}"
    )


def shares(errors: Sequence[float]) -> tuple[float, float]:
    """Shares of the errors within the near and the far limit."""
    within = [sum(abs(error) <= limit for error in errors) / len(errors) for limit in (NEAR, FAR)]
    return within[0], within[1]


def summary(rows: Sequence[Compared]) -> Iterator[tuple[str, Sequence[float]]]:
    """Errors by what they are of."""
    yield "peak", [row.error for row in rows]
    for phase in TRAINING_PHASES:
        yield f"phase {phase.value}", [row.phase_error(phase.value) for row in rows]
    by: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        for category, error in row.category_errors().items():
            by[category].append(error)
    for category in Category:
        if by[category.value]:
            yield f"at the peak: {category.value}", by[category.value]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables. Returns 1 where the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.formula_trace", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="steps whose name has one of these")
    parser.add_argument("--all", action="store_true", help="trace every step")
    parser.add_argument("--record", action="store_true", help="write what was traced to the records")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="traces kept from run to run")
    options = parser.parse_args(arguments)
    chosen = chosen_cases(options.words, every=options.all)
    records, libraries = read_records()
    made: dict[str, Traced] = {}
    for case, trace in traces(chosen, options.keep):
        if isinstance(trace, str):
            print(f"no trace: {trace}", flush=True)
        else:
            made[case.name] = trace
    print(f"{len(made)} of {len(chosen)} steps traced")
    if options.record:
        write_records({**{c.name: records[c.name] for c in cases() if c.name in records}, **made})
    changed = [
        name for name in made if libraries == installed() and made[name] != records.get(name, made[name])
    ]
    if changed and not options.record:
        print("No longer what was recorded:", *changed, sep="\n")
    held, asked = (made, chosen) if options.words else ({**records, **made}, cases())
    tables, missing = load_tables(), [case.name for case in asked if case.name not in held]
    print(
        f"{len(asked) - len(missing)} of {len(asked)} steps have a trace, {len(held) - len(made)} of them recorded"
    )
    rows = [compare(case, held[case.name], tables) for case in asked if case.name in held]
    listed(rows)
    return judged(rows, len(missing) + (0 if options.record else len(changed)))


def chosen_cases(words: Sequence[str], *, every: bool) -> list[Case]:
    """The steps to be traced."""
    if words:
        return [case for case in cases() if any(word in case.name for word in words)]
    return list(cases() if every else cases()[::EVERY])


def listed(rows: Iterable[Compared]) -> None:
    """Print the steps of which something is not as near as asked."""
    print(f"\n{f'beyond {NEAR:.1%}':86} {'peak':>11} {'off':>8}  {'worst phase':23}  worst category")
    for row in rows:
        if max(abs(row.error), abs(row.worst_category[1]), abs(row.phase_error(row.worst_phase))) > NEAR:
            print(line(row))


def judged(rows: Sequence[Compared], missing: int) -> int:
    """Print shares; 1 where the target is missed. `missing` are steps whose trace is missing or not as recorded."""
    print(f"\n{len(rows)} steps\n")
    if not rows:
        print("Target missed.")
        return 1
    print(f"{'':32} steps  within 0.5 %  within 2 %    worst")
    met = not missing
    for name, errors in summary(rows):
        near, far = shares(errors)
        worst = max(errors, key=abs)
        print(f"{name:32} {len(errors):5} {near:13.1%} {far:11.1%} {worst:+8.3%}")
        if name.startswith(("peak", "at the peak")):
            met = met and near >= NEAR_SHARE and far == 1
    print("\nTarget met." if met else "\nTarget missed.")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
