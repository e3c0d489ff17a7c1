"""Traces beside real CPU steps: every phase's peak of tensor bytes, for each of the settings that the tests hold.

`python -m benchmarks.traced_steps` runs every setting (a child process with PyTorch, one thread, minutes) and prints a
markdown table; names after it pick some. Ends with 1 if any phase is more than 0.1 % off.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

ROOT: Final = Path(__file__).parent.parent
REFEREE: Final = "tests.profiler.trace.referee"
TOLERANCE_FRAC: Final = 0.001
PHASES: Final = ("rest", "forward", "loss", "backward", "optimizer_step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One setting.

    Attributes:
        name: As in the tests' cases.
        real: Peak tensor bytes of the real step by phase.
        traced: The same of the trace.
    """

    name: str
    real: dict[str, int]
    traced: dict[str, int]

    def error_frac(self, phase: str) -> float:
        """Traced over real, less one."""
        return self.traced[phase] / self.real[phase] - 1

    @property
    def worst_phase(self) -> str:
        """The phase that is furthest off."""
        return max(self.real, key=lambda phase: abs(self.error_frac(phase)))

    @property
    def worst_frac(self) -> float:
        """How far off that one is."""
        return abs(self.error_frac(self.worst_phase))


def compared(names: Sequence[str]) -> Iterator[Compared]:
    """Run the settings of these names, all for none, in one child process; each is handed on as it comes.

    Raises:
        RuntimeError: The child failed.
    """
    command = [sys.executable, "-m", REFEREE, *(names or ["--all"])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8") as child:
        for line in child.stdout or ():
            if line.startswith('{"case"'):
                read = json.loads(line)
                yield Compared(name=read["case"], real=read["real"], traced=read["traced"])
    if child.returncode:
        raise RuntimeError(f"{REFEREE} ended with {child.returncode}")


def table(rows: Iterable[Compared]) -> Iterator[str]:
    """A markdown table, and a line that sums it up."""
    yield "| setting | peak, real bytes | peak, traced bytes | worst phase | off |"
    yield "|---|---:|---:|---|---:|"
    seen: list[float] = []
    for row in rows:
        real, traced = max(row.real.values()), max(row.traced.values())
        seen.append(row.worst_frac)
        worst = row.worst_phase
        yield f"| {row.name} | {real} | {traced} | {worst} | {row.error_frac(worst):+.4%} |"
    if seen:
        off = sum(frac > TOLERANCE_FRAC for frac in seen)
        yield ""
        yield f"{len(seen)} settings; worst {max(seen):.4%}, median {median(seen):.4%}; {off} above 0.1 %."


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. Returns 1 if any setting is off."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traced_steps", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="settings; all for none")
    rows: list[Compared] = []

    def kept() -> Iterator[Compared]:
        for row in compared(parser.parse_args(arguments).names):
            rows.append(row)
            yield row

    for line in table(kept()):
        print(line, flush=True)
    return int(any(row.worst_frac > TOLERANCE_FRAC for row in rows))


if __name__ == "__main__":
    sys.exit(main())
