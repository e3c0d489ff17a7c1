"""Traces of `benchmarks.formula_trace` as they were made, in a small file: formulas are held against them in a second.

Of every step the bytes allocated at each phase's fullest moment, by category, and what the allocator's rounding adds.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

RECORDS: Final = Path(__file__).parent.parent / "tests" / "data" / "formula_traces.json"
LIBRARIES: Final = ("torch", "transformers")
ROUNDING: Final = "block_rounding"
Figures = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Bytes of one phase at its fullest moment, by category."""

    categories: dict[str, int]

    @property
    def bytes(self) -> int:
        """All together."""
        return sum(self.categories.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """One step's trace.

    Attributes:
        phases: What is allocated, without the rounding of blocks.
        rounding_bytes: That rounding, by phase.
    """

    phases: dict[str, Sums]
    rounding_bytes: dict[str, int]

    @classmethod
    def of(cls, figures: Figures) -> "Traced":
        """From what `benchmarks.formula_trace_child` says of the phases."""
        phases, rounding = {}, {}
        for phase, said in figures.items():
            totals: defaultdict[str, int] = defaultdict(int)
            for category, name, size in said["groups"]:
                if name != ROUNDING:
                    totals[category] += size
            phases[phase] = Sums(categories=dict(totals))
            rounding[phase] = said["bytes"] - sum(totals.values())
        return cls(phases=phases, rounding_bytes=rounding)

    @property
    def document(self) -> dict[str, dict[str, int]]:
        """As the file has it."""
        return {
            phase: {**dict(sorted(sums.categories.items())), ROUNDING: self.rounding_bytes[phase]}
            for phase, sums in self.phases.items()
        }

    @classmethod
    def read(cls, document: Mapping[str, Mapping[str, int]]) -> "Traced":
        """From the file."""
        return cls(
            phases={
                phase: Sums(categories={name: size for name, size in row.items() if name != ROUNDING})
                for phase, row in document.items()
            },
            rounding_bytes={phase: row[ROUNDING] for phase, row in document.items()},
        )


def installed() -> dict[str, str]:
    """The libraries' versions here; those that are not installed are left out."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def read_records(path: Path = RECORDS) -> tuple[dict[str, Traced], dict[str, str]]:
    """Every recorded trace by the step's name, and the libraries that made them; nothing where there is no file."""
    if not path.exists():
        return {}, {}
    document = json.loads(path.read_text(encoding="utf-8"))
    return {name: Traced.read(row) for name, row in document["steps"].items()}, document["libraries"]


def write_records(traces: Mapping[str, Traced], path: Path = RECORDS) -> None:
    """Write the file, one step a line."""
    steps = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(traces[name].document, separators=(',', ':'))}"
        for name in sorted(traces)
    )
    head = json.dumps(installed())
    path.write_text(
        f'{{\n "libraries": {head},\n "steps": {{\n{steps}\n }}\n}}\n', encoding="utf-8", newline="\n"
    )
