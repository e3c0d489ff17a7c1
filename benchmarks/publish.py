"""Writes hardware_db/data/score.json, the score that the Method page shows: `python -m benchmarks.publish`.

Every published memory measurement is predicted and held against what was read, with the bands as they stand
(so `python -m benchmarks.bands` comes first). The file is small and the same for the same code, data and
date: names are written once and rows point at them.
"""

import argparse
import datetime as dt
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.bands_held import Judged, coverage, held_out, judged, totals
from benchmarks.bands_ratios import Ratio, layer_ratios
from benchmarks.in_sample import in_sample
from benchmarks.records import MEMORY_FILES, TRUTH, load
from hardware_db import DATA, load_tables
from planner.accuracy.bands import row_of
from planner.accuracy.predict import Predictor, predictor
from planner.accuracy.score import Row, Score, as_json, percentile, score
from planner.accuracy.truth import Record
from planner.hardware import Tables
from planner.scenario import SCHEMA_VERSION

FILE_VERSION: Final = 2
COMMAND: Final = "python -m benchmarks.publish"
DIGITS: Final = 6
"""Significant digits of what is no whole number: far finer than any figure shown."""
LICENCES: Final = "## Licences of the sources"

Indexed = dict[str, int]


def rounded(value: float | None) -> float | int | None:
    """A number with the digits that the file keeps; whole numbers and unknown ones as they are."""
    if value is None or isinstance(value, bool | int):
        return value
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


def document(records: tuple[Record, ...], predict: Predictor, tables: Tables, made_on: str) -> dict[str, Any]:
    """Everything that the file holds, as JSON values."""
    result = score(records, predict)
    families = _index(record.family for record in records)
    metrics = _index(row.metric for row in result.rows)
    sources = _index(record.source for record in records)
    positions = {record.id: i for i, record in enumerate(records)}
    own = in_sample(tables.constants, records)
    found = layer_ratios(records, predict)
    held = held_out(found, tables)
    return {
        "version": FILE_VERSION,
        "made_on": made_on,
        "made_by": COMMAND,
        "versions": {"scenario_schema": SCHEMA_VERSION},
        "inputs": list(inputs()),
        **_summary(result),
        "runs": runs(held, tables, {name for item in own for name in item.families}),
        "coverage": covered(held, judged(found, tables)),
        "verdicts": verdicts(result.rows, records),
        "in_sample": [asdict(item) for item in own],
        "licences": licences((TRUTH / "README.md").read_text(encoding="utf-8")),
        "families": list(families),
        "metrics": list(metrics),
        "sources": list(sources),
        "records": [_record(record, families, sources) for record in records],
        "rows": [_row(row, positions, metrics) for row in result.rows],
        "unsupported": [[positions[x.id], x.metric, x.reason] for x in result.unsupported],
    }


def _index(names: Iterable[str]) -> Indexed:
    return {name: i for i, name in enumerate(dict.fromkeys(names))}


def _summary(result: Score) -> dict[str, Any]:
    """Counts, cells and the table of verdicts."""
    counts: dict[str, Any] = as_json(result)["summary"]
    cells, fits = counts.pop("cells"), counts.pop("fits")
    for cell in cells:
        cell.update({key: rounded(value) for key, value in cell.items() if isinstance(value, float)})
    return {"counts": counts, "fits": {key: rounded(value) for key, value in fits.items()}, "cells": cells}


def _record(record: Record, families: Indexed, sources: Indexed) -> list[Any]:
    """[id, family, source, runtime, task]; the last two are null where the schema can't say what ran."""
    asked = record.scenario
    name, task = (asked.runtime.name, asked.task) if asked is not None else (None, None)
    return [record.id, families[record.family], sources[record.source], name, task]


def _row(row: Row, positions: Mapping[str, int], metrics: Indexed) -> list[Any]:
    """[record, metric, predicted, observed, error, inside the band]."""
    figures = (rounded(row.predicted), rounded(row.observed), rounded(row.error))
    return [positions[row.id], metrics[row.metric], *figures, row.inside_band]


def covered(held: Collection[Judged], shipped: Collection[Judged]) -> list[dict[str, Any]]:
    """Readings inside bands made without their source: each layer, then each source and layer.

    Beside them half the width of those bands and of the ones that are shown, made of every source; medians.
    """
    with_all = {(cell.family, cell.layer): cell for cell in (*totals(shipped), *coverage(shipped))}
    return [
        asdict(cell)
        | {
            "half_width_frac": rounded(cell.half_width_frac),
            "shipped_half_width_frac": rounded(with_all[cell.family, cell.layer].half_width_frac),
        }
        for cell in (*totals(held), *coverage(held))
    ]


def runs(held: Iterable[Judged], tables: Tables, own: Collection[str]) -> list[dict[str, Any]]:
    """What a run held at its peak, in its outermost layer, by runtime and task: errors, band, and runs held out.

    An error is predicted / observed - 1. Runs of `own` sources, which constants were read from, are apart.
    `held_inside` counts runs inside a band made without their source, `clean_inside` those of other sources.
    """
    by_key: dict[tuple[str, str], list[tuple[Ratio, bool]]] = {}
    for one in held:
        if one.ratio.outermost:
            by_key.setdefault((one.ratio.runtime, one.ratio.task), []).append((one.ratio, one.inside))
    rows: list[dict[str, Any]] = []
    for key, members in sorted(by_key.items()):
        absolute, band = sorted(abs(1 / ratio.value - 1) for ratio, _ in members), row_of(*key, tables)
        clean = [(ratio, inside) for ratio, inside in members if ratio.family not in own]
        rows.append(
            {
                "runtime": key[0],
                "task": key[1],
                "sources": len({ratio.family for ratio, _ in members}),
                "median_abs_error": rounded(median(absolute)),
                "p90_abs_error": rounded(percentile(absolute, 0.9)),
                "low_frac": band.low_frac if band else None,
                "high_frac": band.high_frac if band else None,
                "held_inside": sum(inside for _, inside in members),
                "clean_inside": sum(inside for _, inside in clean),
                "clean_errors": _errors(ratio for ratio, _ in clean),
                "own_errors": _errors(ratio for ratio, _ in members if ratio.family in own),
            }
        )
    return rows


def _errors(found: Iterable[Ratio]) -> list[float]:
    return sorted(round(1 / ratio.value - 1, 4) for ratio in found)


def verdicts(rows: Iterable[Row], records: Iterable[Record]) -> list[dict[str, Any]]:
    """Verdicts by runtime and task: how many were right. A run counts once."""
    asked = {record.id: record.scenario for record in records}
    counts: dict[tuple[str, str], list[int]] = {}
    seen: set[str] = set()
    for row in rows:
        scenario = asked[row.id]
        if row.metric != "fits" or row.predicted is None or scenario is None or (row.group or row.id) in seen:
            continue
        seen.add(row.group or row.id)
        tally = counts.setdefault((scenario.runtime.name, scenario.task), [0, 0])
        tally[0] += bool(row.predicted) is bool(row.observed)
        tally[1] += 1
    return [
        {"runtime": runtime, "task": task, "right": right, "n": total}
        for (runtime, task), (right, total) in sorted(counts.items())
    ]


def inputs() -> Iterator[dict[str, Any]]:
    """The files of measurements: rows, first and last date, and the start of their digest."""
    for name in MEMORY_FILES:
        # The digest is of the text, so that line ends don't matter.
        text = (TRUTH / name).read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        dates = sorted(line["date"] for line in lines if line.get("date"))
        yield {
            "file": name,
            "rows": len(lines),
            "undated": sum(not line.get("date") for line in lines),
            "oldest": dates[0] if dates else None,
            "newest": dates[-1] if dates else None,
            "sha256": hashlib.sha256(text.encode()).hexdigest()[:16],
        }


def licences(readme: str) -> list[list[str]]:
    """The cells of the licence table of the measurements."""
    table = readme.partition(LICENCES)[2].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("|")]
    return rows[2:]


def as_text(content: Mapping[str, Any]) -> str:
    """The file: one line a name, record or row, so that a change shows as the lines that changed."""

    def compact(value: object) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)

    parts = []
    for key, value in content.items():
        if isinstance(value, list):
            body = ",\n".join(compact(item) for item in value)
            parts.append(f'"{key}":[\n{body}\n]')
        else:
            parts.append(f'"{key}":{compact(value)}')
    return "{" + ",\n".join(parts) + "}\n"


def write(content: Mapping[str, Any], path: Path) -> None:
    """The file, the same bytes for the same content on every system."""
    path.write_text(as_text(content), encoding="utf-8", newline="\n")


def main() -> None:
    """Write the file and say how large it is."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--date", default=dt.datetime.now(tz=dt.UTC).date().isoformat())
    parser.add_argument("--out", type=Path, default=DATA / "score.json")
    options = parser.parse_args()
    tables = load_tables()
    content = document(load(MEMORY_FILES), predictor(tables), tables, options.date)
    write(content, options.out)
    size = options.out.stat().st_size
    print(f"{options.out.name}: {len(content['rows'])} rows, {size:,} bytes")


if __name__ == "__main__":
    main()
