"""Scores that the benchmarks leave beside the data: the records of their files, and the score of speed."""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from hardware_db import DATA

SPEED_VERSION: Final = 2
SPEED: Final = DATA / "speed_accuracy.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A file of measurements as it was when the score was made."""

    file: str
    rows: int
    undated: int
    oldest: str | None
    newest: str | None
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Readings of one source and layer against bands made without that source.

    Attributes:
        family: The source; `*` for all of a layer together.
        n: Readings.
        below: Readings under their band.
        above: Readings over it.
        runs: Those that are the outermost of their run, by which the run is counted.
        runs_inside: Of them, inside.
        half_width_frac: Half of the band's width, of the prediction; median. None without a band.
        shipped_half_width_frac: The same of the bands that are shown, made of every source.
    """

    family: str
    layer: str
    n: int
    inside: int
    below: int
    above: int
    runs: int
    runs_inside: int
    half_width_frac: float | None
    shipped_half_width_frac: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossSplit:
    """Runs divided in two by source, or those of the constants' own source by model.

    Errors are |predicted / observed - 1|.

    Attributes:
        by: `source` or `model`.
        runs: Runs scored.
        sources: Sources they come from.
        mean_abs_error: With constants fitted on the other half; mean over the sources.
        median_abs_error: The same, median over the runs.
        shipped_mean_abs_error: With the shipped constants, which saw all rows.
        shipped_median_abs_error: The same, median over the runs.
    """

    by: str
    runs: int
    sources: int
    mean_abs_error: float
    median_abs_error: float
    shipped_mean_abs_error: float
    shipped_median_abs_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedLine:
    """Runs of one sort. Errors are |predicted / observed - 1|, means over sources of each source's own quantile.

    Attributes:
        group: What is timed.
        kinds: Kinds of band it goes by.
        families: Sources.
        family_median: Of runs whose whole source was left out of the fit.
        family_p90: The same, nine of ten.
        fold_median: Of runs left out with a fifth of their source.
        fold_p90: The same, nine of ten.
        fitted_median: Of runs that the constants were fitted to: no test.
        inside_frac: Share of runs inside a band made without their source.
        inside_family_frac: Mean over sources of each source's own share.
        simple: The simple rule beside it, in words of the code.
        simple_key: Its key.
        simple_family_median: Its error under the same test.
        simple_fold_median: The same.
    """

    group: str
    kinds: tuple[str, ...]
    families: int
    rows: int
    family_median: float
    family_p90: float
    fold_median: float
    fold_p90: float
    fitted_median: float
    inside_frac: float
    inside_family_frac: float
    simple: str
    simple_key: str
    simple_family_median: float
    simple_fold_median: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedFamily:
    """One source's runs of one kind, with the medians of both tests."""

    kind: str
    family: str
    rows: int
    family_median: float
    fold_median: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedScore:
    """The whole file; `left_out` runs have no prediction because a table lacks a figure of the card."""

    made_on: str
    input: Input
    left_out: int
    lines: tuple[SpeedLine, ...]
    families: tuple[SpeedFamily, ...]


def read_score(path: Path, version: int) -> dict[str, Any]:
    """A score as it was written.

    Raises:
        OSError: There is no such file.
        ValueError: It is not a score of this version.
    """
    tree: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if tree.get("version") != version:
        raise ValueError(f"{path.name}: version {tree.get('version')!r}, allowed: {version}")
    return tree


@lru_cache(maxsize=2)
def speed_score(path: Path = SPEED) -> SpeedScore:
    """The score of speed, read once.

    Raises:
        OSError: There is no such file.
        ValueError: It is not a score of this version.
    """
    tree = read_score(path, SPEED_VERSION)
    return SpeedScore(
        made_on=tree["made_on"],
        input=Input(**tree["input"]),
        left_out=tree["left_out"],
        lines=tuple(SpeedLine(**(item | {"kinds": tuple(item["kinds"])})) for item in tree["lines"]),
        families=tuple(SpeedFamily(**item) for item in tree["families"]),
    )
