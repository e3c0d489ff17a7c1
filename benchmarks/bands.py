"""Makes hardware_db/data/bands.csv from published measurements: `python -m benchmarks.bands`.

For every run the ratios observed / predicted of its peak, by layer: what PyTorch had allocated, what it had
reserved, what the device held (`bands_ratios`). From them the rows of the table (`bands_rows`), and how often a
band made without a source holds that source's runs (`bands_held`), beside how often the shipped rows hold the very
runs they were made from.
"""

import argparse
import csv
import datetime as dt
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.bands_held import as_bands, held_out, how, judged, report
from benchmarks.bands_ratios import layer_ratios
from benchmarks.bands_rows import Width, widths
from benchmarks.in_sample import in_sample
from benchmarks.records import MEMORY_FILES, load
from hardware_db import DATA, load_tables
from hardware_db.constants import BAND_COLUMNS
from planner.accuracy.predict import predictor

PATH: Final = DATA / "bands.csv"


def write(rows: Iterable[Width], path: Path, made_on: str) -> None:
    """The table as CSV, the same bytes for the same rows."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(BAND_COLUMNS)
        for row in rows:
            ends = f"{row.low:.4f}", f"{row.high:.4f}"
            writer.writerow([row.runtime, row.task, row.layer, row.num_rows, *ends, made_on, how(row)])


def lines(rows: Iterable[Width]) -> list[str]:
    """The rows for a terminal."""
    return [
        f"{row.runtime:14} {row.task:9} {row.layer:9} {row.num_rows:5d} runs {row.num_sources:3d} sources"
        f"  {row.low:.3f} to {row.high:.3f}"
        for row in rows
    ]


def main() -> None:
    """Make the table again and print what it rests on."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bands", description=__doc__)
    parser.add_argument("--date", default=dt.datetime.now(tz=dt.UTC).date().isoformat())
    parser.add_argument("--dry-run", action="store_true", help="print, write nothing")
    options = parser.parse_args()
    tables, records = load_tables(), load(MEMORY_FILES)
    found = layer_ratios(records, predictor(tables))
    rows = widths(found)
    if not options.dry_run:
        write(rows, PATH, options.date)
    own = frozenset(name for item in in_sample(tables.constants, records) for name in item.families)
    shipped = replace(tables, bands=as_bands(rows, options.date))
    print("\n".join(lines(rows)))
    print(
        "\nheld out: bands made without the source of a run", *report(held_out(found, tables), own), sep="\n"
    )
    print("\nin sample: bands as shipped", *report(judged(found, shipped), own)[1:], sep="\n")


if __name__ == "__main__":
    main()
