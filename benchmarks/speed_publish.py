"""Writes hardware_db/data/speed_accuracy.json, the speed score that the Method page shows.

`python -m benchmarks.speed_accuracy --write` makes it with the constants, so that both are of one fit.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.records import TRUTH
from benchmarks.speed_constants import FILE as CONSTANTS
from hardware_db import DATA
from hardware_db.scores import SPEED, SPEED_VERSION

FILE: Final = SPEED.name
COMMAND: Final = "python -m benchmarks.speed_accuracy --write"
DIGITS: Final = 4
INPUT: Final = "speed.jsonl"


def digest(path: Path) -> str:
    """The start of a file's digest; of its text, so that line ends don't matter."""
    return hashlib.sha256(path.read_text(encoding="utf-8").encode()).hexdigest()[:16]


def measured() -> dict[str, Any]:
    """The file of measurements: rows, first and last date, digest."""
    lines = [json.loads(line) for line in (TRUTH / INPUT).read_text(encoding="utf-8").splitlines() if line]
    dates = sorted(line["date"] for line in lines if line.get("date"))
    return {
        "file": INPUT,
        "rows": len(lines),
        "undated": len(lines) - len(dates),
        "oldest": dates[0],
        "newest": dates[-1],
        "sha256": digest(TRUTH / INPUT),
    }


def document(lines: Sequence[Any], families: Sequence[dict[str, Any]], left_out: int) -> dict[str, Any]:
    """Everything the file holds.

    Args:
        lines: Lines of the table, one a kind of run.
        families: What `family_rows` found.
        left_out: Runs that the tables lack a figure for.
    """
    return {
        "version": SPEED_VERSION,
        "made_on": date.today().isoformat(),  # noqa: DTZ011
        "made_by": COMMAND,
        "input": measured(),
        "constants_sha256": digest(DATA / CONSTANTS),
        "left_out": left_out,
        "lines": [_rounded(asdict(line)) for line in lines],
        "families": [_rounded(row) for row in families],
    }


def family_rows(result: Any, error: Any) -> list[dict[str, Any]]:
    """Median error of every source by kind of run: the source left out, and one row in five left out."""
    data, found = result.data, []
    for kind in np.unique(data.kinds):
        for family in np.unique(data.families[data.kinds == kind]):
            mask = (data.kinds == kind) & (data.families == family)
            of_family, of_fold = (
                float(np.median(error(log_time[mask], result.metrics[mask])))
                for log_time in (result.family, result.fold)
            )
            found.append(
                {
                    "kind": str(kind),
                    "family": str(family),
                    "rows": int(mask.sum()),
                    "family_median": of_family,
                    "fold_median": of_fold,
                }
            )
    return found


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, DIGITS) if isinstance(value, float) else value for key, value in row.items()}


def write(content: dict[str, Any], folder: Path = DATA) -> None:
    """One line a row, the same bytes on every system."""
    parts = []
    for key, value in content.items():
        if isinstance(value, list):
            body = ",\n".join(json.dumps(item, ensure_ascii=False) for item in value)
            parts.append(f'"{key}": [\n{body}\n]')
        else:
            parts.append(f'"{key}": {json.dumps(value, ensure_ascii=False)}')
    (folder / FILE).write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8", newline="\n")
