"""The speed score as `python -m benchmarks.speed_accuracy --write` left it, and its tables."""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from hardware_db import DATA
from ui import parts
from ui.method.published import Input
from ui.method.shares import share_text
from ui.numbers import percent, whole
from ui.words import Safe, Words

FILE_VERSION: Final = 1
FILE: Final = DATA / "speed_accuracy.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
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
    simple: str
    simple_key: str
    simple_family_median: float
    simple_fold_median: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
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
    lines: tuple[Line, ...]
    families: tuple[Family, ...]


@lru_cache(maxsize=2)
def speed_score(path: Path = FILE) -> SpeedScore:
    """The score of a file, read once.

    Raises:
        OSError: There is no such file.
        ValueError: It is not a score of this version.
    """
    tree: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if tree.get("version") != FILE_VERSION:
        raise ValueError(f"{path.name}: version {tree.get('version')!r}, allowed: {FILE_VERSION}")
    return SpeedScore(
        made_on=tree["made_on"],
        input=Input(**tree["input"]),
        left_out=tree["left_out"],
        lines=tuple(Line(**(item | {"kinds": tuple(item["kinds"])})) for item in tree["lines"]),
        families=tuple(Family(**item) for item in tree["families"]),
    )


def lines_table(score: SpeedScore, words: Words) -> Safe:
    """A line a sort of run: our error beside the simple rule's, under one test."""
    columns = ("group", "sources", "runs", "median", "p90", "rule_error", "fold", "inside", "rule")
    head = [words(f"method.speed.{name}") for name in columns]
    rows = [
        [
            words(f"method.speed.of.{line.simple_key}_{line.kinds[0]}"),
            whole(line.families),
            whole(line.rows),
            share_text(line.family_median),
            share_text(line.family_p90),
            share_text(line.simple_family_median),
            words(
                "method.speed.both",
                ours=share_text(line.fold_median),
                rule=share_text(line.simple_fold_median),
            ),
            percent(line.inside_frac),
            words(f"method.speed.by.{line.simple_key}"),
        ]
        for line in score.lines
    ]
    return parts.table(head, rows, name=words("method.speed.title"), left=(8,), wide=(0, 8))


def families_table(score: SpeedScore, words: Words) -> Safe:
    """A line a source and kind of run."""
    head = [words(f"method.speed.{name}") for name in ("kind", "source", "runs", "median", "fold")]
    rows = [
        [
            words(f"method.speed.of_kind.{row.kind}"),
            row.family,
            whole(row.rows),
            share_text(row.family_median),
            share_text(row.fold_median),
        ]
        for row in score.families
    ]
    return parts.table(head, rows, name=words("method.speed.families"), left=(1,))


def note(score: SpeedScore, words: Words) -> Safe:
    """What was tested, when, and what has no prediction."""
    return words.html(
        "method.speed.test",
        rows=whole(sum(line.rows for line in score.lines)),
        date=score.made_on,
        out=words.count("method.speed.left_out", score.left_out),
    )
