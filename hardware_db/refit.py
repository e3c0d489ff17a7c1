"""Fits the rules for usable bytes to the cards that have a reading: `python -m hardware_db.refit`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression, median

from hardware_db import DATA
from hardware_db.cells import read_rows
from hardware_db.constants import read_constants
from hardware_db.gpu_rows import GPU_COLUMNS, memory_of
from hardware_db.usable import visible_bytes
from planner.units import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The line reserve = base + share x total, and its error on usable bytes, each card left out in turn."""

    base_mib: float
    frac: float
    n_rows: int
    median_frac: float
    max_frac: float


def fit_reserve(totals_mib: Sequence[float], usable_mib: Sequence[float]) -> Fit:
    """Least squares of (total - usable) on total, with leave-one-out errors.

    Args:
        totals_mib: Total of each card: visible nominal, or nvidia-smi's.
        usable_mib: What a runtime read on it.

    Raises:
        statistics.StatisticsError: Fewer than three cards, or all of one size.
    """
    reserves = [total - seen for total, seen in zip(totals_mib, usable_mib, strict=True)]
    whole = linear_regression(totals_mib, reserves)
    errors = []
    for i, (total, seen) in enumerate(zip(totals_mib, usable_mib, strict=True)):
        line = linear_regression(_without(totals_mib, i), _without(reserves, i))
        errors.append(abs(total - line.intercept - line.slope * total - seen) / seen)
    return Fit(
        base_mib=whole.intercept,
        frac=whole.slope,
        n_rows=len(reserves),
        median_frac=median(errors),
        max_frac=max(errors),
    )


def _without(values: Sequence[float], index: int) -> list[float]:
    return [*values[:index], *values[index + 1 :]]


def refit(directory: Path = DATA) -> dict[str, Fit]:
    """The fits of `usable_nominal_*` and `usable_smi_*`.

    NVIDIA cards with their own memory and a total that was read, not recalled, take part; for the second rule
    the total of nvidia-smi must have been read as well.
    """
    constants = read_constants(directory / "constants.toml")
    nominal: list[tuple[float, float]] = []
    smi: list[tuple[float, float]] = []
    for row in read_rows(directory / "gpus.csv", GPU_COLUMNS):
        memory = memory_of(row)
        if memory.vendor != "NVIDIA" or memory.unified or memory.cuda_mib is None:
            continue
        if row.text("memory_cuda_kind") != "read":
            continue
        nominal.append((visible_bytes(memory, constants) / MIB, memory.cuda_mib))
        if memory.smi_mib is not None and row.text("memory_smi_kind") == "read":
            smi.append((memory.smi_mib, memory.cuda_mib))
    return {
        "usable_nominal": fit_reserve([a for a, _ in nominal], [b for _, b in nominal]),
        "usable_smi": fit_reserve([a for a, _ in smi], [b for _, b in smi]),
    }


def main() -> int:
    """Prints both fits."""
    for name, fit in refit().items():
        sys.stdout.write(
            f"{name}: base {fit.base_mib:.1f} MiB, share {fit.frac:.5f}, {fit.n_rows} cards, "
            f"left out in turn: median {fit.median_frac:.2%}, worst {fit.max_frac:.2%}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
