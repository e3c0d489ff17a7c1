"""The formulas of divided jobs beside traces of one rank: `python -m benchmarks.formula_trace_divided [WORD ...]`.

As `benchmarks.formula_trace`, on the steps of `benchmarks.formula_divided_cases`: FSDP2, DTensor's tensor parallelism,
both, DDP. Ends with 1 if fewer than 95 % of the peaks are within 0.5 %, or any is beyond 2 %; phases and categories are
shown. The traces run PyTorch's own code for one rank, with collectives that move nothing.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.formula_cases import Case
from benchmarks.formula_divided_cases import cases
from benchmarks.formula_trace import FAR, NEAR, NEAR_SHARE, Compared, compared, line, shares, summary

QUICK: Final = frozenset({
    *("1b-fsdp2-bf16", "1b-fsdp8-bf16-ckpt", "1b-fsdp2-mixed-ckpt", "1b-fsdp8-mixed-kept-ckpt"),
    *("1b-tp2-bf16-sp", "1b-tp8-fp32-ckpt-s2048"),
})  # fmt: skip
"""Steps that are traced in a few seconds each."""


def chosen(words: Sequence[str]) -> list[Case]:
    """The steps whose name has one of the words, all without any."""
    return [case for case in cases() if not words or any(word in case.name for word in words)]


def rows_of(wanted: Iterable[Case], folder: Path | None = None) -> tuple[list[Compared], list[str]]:
    """Every step beside its trace, and why there is none where there is none."""
    rows, missing = [], []
    for row in compared(wanted, folder):
        if isinstance(row, str):
            missing.append(row)
            print(f"no trace: {row}", flush=True)
            continue
        rows.append(row)
        print(line(row), flush=True)
    return rows, missing


def is_met(errors: Sequence[float]) -> bool:
    """Whether peaks are as near as asked."""
    near, far = shares(errors)
    return near >= NEAR_SHARE and far == 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables. Returns 1 where the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.formula_trace_divided", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="steps whose name has one of these")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="traces kept from run to run")
    options = parser.parse_args(arguments)
    rows, missing = rows_of(chosen(options.words), options.keep)
    if not rows:
        return 1
    print(f"\n{len(rows)} steps, {len(missing)} without a trace\n")
    print(f"{'':32} steps  within {NEAR:.1%}  within {FAR:.0%}    worst")
    for name, errors in summary(rows):
        near, far = shares(errors)
        print(f"{name:32} {len(errors):5} {near:13.1%} {far:11.1%} {max(errors, key=abs):+8.3%}")
    met = is_met([row.error for row in rows]) and not missing
    print("\nTarget met." if met else "\nTarget missed.")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
