"""SkyPilot's catalog files (github.com/skypilot-org/skypilot-catalog): a CSV a cloud, columns by name.

Only clouds whose rows price the whole machine are read: those of GCP price the card apart.
"""

import csv
from collections.abc import Iterator
from typing import Final

from hardware_db.refresh.fetch import Getter
from hardware_db.refresh.types import ChangedFormatError, RawPrice, Reading
from planner.units import MIB

ADDRESS: Final = (
    "https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/catalogs/v8/{cloud}/vms.csv"
)
CLOUDS: Final = {
    "lambda": "Lambda",
    "nebius": "Nebius",
    "runpod": "RunPod",
    "verda": "Verda (DataCrunch)",
}
"""Folder of the catalog, and what the shipped table calls the provider."""
MOST_BYTES: Final = 16 * MIB
LIMIT_S: Final = 60.0
NEEDED: Final = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Region", "Price", "SpotPrice")


def read(get: Getter, reading: Reading, cloud: str) -> None:
    """One cloud's file, put into `reading` line by line.

    Raises:
        FetchError: It could not be read to its end; lines before that are kept.
        ChangedFormatError: A column is missing.
    """
    read_lines(get.lines(ADDRESS.format(cloud=cloud), MOST_BYTES, LIMIT_S), reading, CLOUDS[cloud])


def read_lines(lines: Iterator[str], reading: Reading, provider: str) -> None:
    """As `read`, of lines at hand.

    Raises:
        ChangedFormatError: A column is missing.
    """
    rows = csv.reader(lines)
    head = next(rows, [])
    lacking = [name for name in NEEDED if name not in head]
    if lacking:
        raise ChangedFormatError(", ".join(lacking))
    for cells in rows:
        if len(cells) != len(head):
            reading.kept_out.append(("short_row", (cells or [""])[0][:80], f"{len(cells)} / {len(head)}"))
            continue
        _read_row(dict(zip(head, cells, strict=True)), reading, provider)


def _read_row(row: dict[str, str], reading: Reading, provider: str) -> None:
    if not row["AcceleratorName"]:
        reading.passed_over += 1
        return
    for column, spot in (("Price", False), ("SpotPrice", True)):
        # RunPod repeats the price where it sells no spot machines.
        if row[column] == "" or (spot and row[column] == row["Price"]):
            continue
        reading.prices.append(
            RawPrice(
                provider=provider,
                instance_type=row["InstanceType"][:120],
                region=row["Region"][:80],
                price=row[column],
                gpu_name=row["AcceleratorName"][:80],
                gpu_count=_count(row["AcceleratorCount"]),
                spot=spot,
            )
        )


def _count(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
