"""Fitted constants (TOML) and the bands made from residuals (CSV)."""

import math
import re
import tomllib
from pathlib import Path

from hardware_db.cells import is_date, read_rows, read_text
from hardware_db.errors import DataError
from planner.hardware import Band, Constant

BAND_COLUMNS = ("runtime", "task", "layer", "n_rows", "low_frac", "high_frac", "made_on", "how")

_TEXT_KEYS = ("unit", "how", "versions", "date", "source")
_TEXT = "text"
_FRAC = "a share from 0 to 1"
_OPTIONAL_KEYS = {
    "residual": _TEXT,
    "n_rows": "a whole number from 1",
    "residual_median_frac": _FRAC,
    "residual_max_frac": _FRAC,
    "recalled": "true or false",
}
_ALLOWED = {
    "value": "a number",
    **dict.fromkeys(_TEXT_KEYS, _TEXT),
    "date": "a date: YYYY, YYYY-MM or YYYY-MM-DD",
    **_OPTIONAL_KEYS,
}
_LINE = re.compile(r"\(at line (\d+)")


def read_constants(path: Path) -> dict[str, Constant]:
    """Every constant by name.

    Raises:
        DataError: Not TOML, or a constant lacks a key, has one too many, or a value of the wrong kind.
    """
    text = read_text(path)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        match = _LINE.search(str(problem))
        line = int(match[1]) if match else text.count("\n") + 1
        raise DataError(path.name, line, "", str(problem), "TOML, one table a constant") from problem
    return {name: _constant(path.name, text, name, table) for name, table in tree.items()}


def _constant(file: str, text: str, name: str, table: object) -> Constant:
    if not isinstance(table, dict):
        raise DataError(file, _line_of(text, name, ""), name, table, f"a table [{name}]")
    for key in (*table, "value", *_TEXT_KEYS):
        allowed = _ALLOWED.get(key, f"one of: {', '.join(_ALLOWED)}")
        if key not in table or not _is_allowed(key, table[key]):
            where = f"{name}.{key}"
            raise DataError(file, _line_of(text, name, key), where, table.get(key, "missing"), allowed)
    return Constant(name=name, **table)


def _is_allowed(key: str, value: object) -> bool:
    allowed = _ALLOWED.get(key)
    if key == "date":
        return isinstance(value, str) and is_date(value)
    if allowed == _TEXT:
        return isinstance(value, str) and bool(value.strip())
    if key == "recalled":
        return isinstance(value, bool)
    if allowed is None or isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if key == "n_rows":
        return isinstance(value, int) and value >= 1
    return 0 <= value <= 1 if allowed == _FRAC else math.isfinite(value)


def _line_of(text: str, name: str, key: str) -> int:
    """The line of a key in its table, of the table's header where the key is missing, or of a bare name."""
    header = 0
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        word = line.split("=")[0].strip()
        if word.startswith("["):
            inside = word == f"[{name}]"
            header = number if inside else header
        elif word == (key if inside else name):
            return number
    return header


def read_bands(path: Path) -> tuple[Band, ...]:
    """The bands, in file order; empty until a benchmark has written some.

    Raises:
        DataError: A cell is not allowed, or two rows are for the same runtime, task and layer.
    """
    bands: list[Band] = []
    seen: set[tuple[str, str, str]] = set()
    for row in read_rows(path, BAND_COLUMNS):
        band = Band(
            runtime=row.text("runtime"),
            task=row.text("task"),
            layer=row.text("layer"),
            n_rows=row.integer("n_rows", 1, 1_000_000),
            low_frac=row.number("low_frac", 0.01, 100),
            high_frac=row.number("high_frac", 0.01, 100),
            made_on=row.day("made_on"),
            source=row.text("how"),
        )
        key = (band.runtime, band.task, band.layer)
        if key in seen:
            raise row.error("layer", "one row for a runtime, task and layer")
        if band.high_frac < band.low_frac:
            raise row.error("high_frac", "a number not below low_frac")
        seen.add(key)
        bands.append(band)
    return tuple(bands)
