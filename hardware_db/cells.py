"""Reads CSV files with a fixed list of columns, and turns cells into values with errors that say where."""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from hardware_db.errors import DataError
from planner.prices import Price, earliest_day


def is_date(date_text: str) -> bool:
    """Whether a text is an ISO date or a prefix of one."""
    try:
        earliest_day(date_text)
    except ValueError:
        return False
    return True


def read_text(path: Path) -> str:
    """The text of a data file.

    Raises:
        DataError: It cannot be opened or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        raise DataError(
            path.name, 0, "", problem.strerror or "unreadable", f"a readable file at {path}"
        ) from problem
    except UnicodeDecodeError as problem:
        raise DataError(path.name, 0, "", f"byte {problem.start}", "text in UTF-8") from problem


class Row:
    """One line of a table; what is not allowed raises `DataError` with file, line, column and value."""

    __slots__ = ("_cells", "_columns", "file", "line")

    def __init__(self, file: str, line: int, columns: dict[str, int], cells: Sequence[str]) -> None:
        self.file = file
        self.line = line
        self._columns = columns
        self._cells = cells

    def error(self, column: str, allowed: str) -> DataError:
        """The error for a cell of this line."""
        return DataError(self.file, self.line, column, self._cells[self._columns[column]], allowed)

    def text(self, column: str) -> str:
        """A cell that must not be empty."""
        value = self._cells[self._columns[column]]
        if not value or value != value.strip():
            raise self.error(column, "text without blanks around it")
        return value

    def optional_text(self, column: str) -> str | None:
        """A cell that may be empty: None."""
        return self.text(column) if self._cells[self._columns[column]] else None

    def choice(self, column: str, allowed: Sequence[str]) -> str:
        """A cell that holds one of a few words."""
        value = self._cells[self._columns[column]]
        if value not in allowed:
            raise self.error(column, f"one of: {', '.join(allowed)}")
        return value

    def flag(self, column: str) -> bool:
        """A cell that says yes or no."""
        return self.choice(column, ("yes", "no")) == "yes"

    def number(self, column: str, low: float, high: float) -> float:
        """A number in a plausible range, both ends allowed."""
        text = self._cells[self._columns[column]]
        try:
            value = float(text) if text.isascii() and "_" not in text else math.nan
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise self.error(column, f"a number from {low:g} to {high:g}")
        return value

    def optional_number(self, column: str, low: float, high: float) -> float | None:
        """A number, or None where the cell is empty."""
        return self.number(column, low, high) if self._cells[self._columns[column]] else None

    def integer(self, column: str, low: int, high: int) -> int:
        """A whole number in a plausible range."""
        value = self.number(column, low, high)
        if not value.is_integer():
            raise self.error(column, f"a whole number from {low} to {high}")
        return int(value)

    def day(self, column: str) -> str:
        """An ISO date or a prefix of one; kept as text, since a prefix is not a day."""
        value = self._cells[self._columns[column]]
        if not is_date(value):
            raise self.error(column, "a date: YYYY, YYYY-MM or YYYY-MM-DD")
        return value

    def price(self, prefix: str, high: float) -> Price | None:
        """A dated price from the columns `<prefix>_usd`, `_date`, `_source`; all three or none."""
        usd, dated, source = f"{prefix}_usd", f"{prefix}_date", f"{prefix}_source"
        value = self.optional_number(usd, 1, high)
        if value is None:
            for column in (dated, source):
                if self.optional_text(column) is not None:
                    raise self.error(column, f"empty where {usd} is empty")
            return None
        where = self.text(source)
        return Price(usd=value, date=self.day(dated), source=where, recalled="recalled" in where)


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Every line of a CSV file whose header must be exactly these columns.

    Raises:
        DataError: The file is missing or not UTF-8, the header differs, or a line has too many or few cells.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    place = {name: i for i, name in enumerate(columns)}
    try:
        header = next(reader, [])
        _check_header(path.name, header, columns)
        for cells in reader:
            if len(cells) != len(columns):
                raise DataError(
                    path.name,
                    reader.line_num,
                    "",
                    f"{len(cells)} cells",
                    f"{len(columns)} cells, one a column",
                )
            yield Row(path.name, reader.line_num, place, cells)
    except csv.Error as problem:
        raise DataError(
            path.name, reader.line_num, "", str(problem), "a line of comma-separated cells"
        ) from problem


def _check_header(file: str, header: Sequence[str], columns: Sequence[str]) -> None:
    if list(header) == list(columns):
        return
    for i, (given, wanted) in enumerate(zip(header, columns, strict=False)):
        if given != wanted:
            raise DataError(file, 1, given, given, f"column {i + 1} is {wanted}")
    extra = header[len(columns) :]
    missing = columns[len(header) :]
    if extra:
        raise DataError(file, 1, extra[0], extra[0], f"the last column is {columns[-1]}")
    raise DataError(file, 1, missing[0], "missing", f"the column {missing[0]}")
