"""Copies of the data files with one thing changed."""

import csv
import shutil
from pathlib import Path

from hardware_db import DATA


def copy_of_data(directory: Path) -> Path:
    """A copy of every data file that a test may spoil."""
    target = directory / "data"
    shutil.copytree(DATA, target)
    return target


def raw_rows(name: str, directory: Path = DATA) -> list[dict[str, str]]:
    """The lines of a CSV file as they stand."""
    with (directory / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def set_cell(directory: Path, name: str, *, line: int, column: str, value: str) -> None:
    """Writes one cell; the header is line 1."""
    with (directory / name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    rows[line - 1][rows[0].index(column)] = value
    with (directory / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def line_of(name: str, row_id: str) -> int:
    """The line on which a row stands."""
    return next(i for i, row in enumerate(raw_rows(name), start=2) if row["id"] == row_id)


def replace_text(directory: Path, name: str, old: str, new: str) -> int:
    """Replaces the first occurrence of a text and returns its line."""
    path = directory / name
    text = path.read_text(encoding="utf-8")
    at = text.index(old)
    path.write_text(text[:at] + new + text[at + len(old) :], encoding="utf-8", newline="")
    return text[:at].count("\n") + 1
