"""The tables the answers rest on: how many rows, how old, how many figures from memory, under which licence."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from hardware_db import DATA
from hardware_db.scores import speed_score
from planner.hardware import Tables
from planner.prices import Price
from ui.method.cross_validation import cross_validation
from ui.method.published import Published

LICENCES: Final = re.compile(r"^## Sources and licences$", re.MULTILINE)
RECALLED: Final = "recalled"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One table.

    Attributes:
        file: Its name.
        rows: Rows in it.
        oldest: First date that a row carries; None where rows carry none.
        newest: Last one.
        undated: Rows without a date.
        recalled: Rows with a figure written from memory.
        what: Key of the words that say what it holds.
    """

    file: str
    rows: int
    oldest: str | None
    newest: str | None
    undated: int
    recalled: int
    what: str


@lru_cache(maxsize=2)
def data_files(tables: Tables, score: Published) -> tuple[DataFile, ...]:
    """Every table of the project and every file of measurements; reads all rows, so it is kept."""
    gpus, nodes, constants = tuple(tables.gpus.values()), tables.nodes, tuple(tables.constants.values())
    models = [tables.models[name] for name in tables.models]
    offers, made = [[offer.date] for offer in tables.offers], [[score.made_on]] * len(score.points)
    timed, crossed = speed_score(), cross_validation()
    own = (
        _file(
            "gpus.csv",
            "gpus",
            [_dates(x.list_price, x.street_price) for x in gpus],
            sum(bool(x.recalled) for x in gpus),
        ),
        _file("nodes.csv", "nodes", [_dates(x.price) for x in nodes], sum(x.recalled for x in nodes)),
        _file("cloud.csv", "offers", offers),
        _file(
            "models.jsonl",
            "models",
            [[] for _ in models],
            sum(x.get("source_kind") == RECALLED for x in models),
        ),
        _file(
            "constants*.toml", "constants", [[x.date] for x in constants], sum(x.recalled for x in constants)
        ),
        _file("bands.csv", "bands", [[band.made_on] for band in tables.bands]),
        _file("score.json", "score", made),
        _file("cross_validation.json", "crossed", [[crossed.made_on] for _ in crossed.splits]),
        _file("speed_accuracy.json", "speed_accuracy", [[timed.made_on] for _ in timed.families]),
    )
    measured = tuple(
        DataFile(
            file=item.file,
            rows=item.rows,
            oldest=item.oldest,
            newest=item.newest,
            undated=item.undated,
            recalled=0,
            what=item.file.partition(".")[0],
        )
        for item in (*score.inputs, timed.input)
    )
    return own + measured


def _dates(*prices: Price | None) -> list[str]:
    return [price.date for price in prices if price is not None]


def _file(file: str, what: str, rows: list[list[str]], recalled: int = 0) -> DataFile:
    """A table from the dates of its rows."""
    dates = [date for row in rows for date in row]
    return DataFile(
        file=file,
        rows=len(rows),
        oldest=min(dates, default=None),
        newest=max(dates, default=None),
        undated=sum(not row for row in rows),
        recalled=recalled,
        what=what,
    )


@lru_cache(maxsize=1)
def data_licences() -> tuple[tuple[str, ...], ...]:
    """Source, licence and use of the tables, as their README has them."""
    return licence_rows((DATA / "README.md").read_text(encoding="utf-8"))


def licence_rows(readme: str) -> tuple[tuple[str, ...], ...]:
    """The cells of the licence table of a README, head and rule left out."""
    heading = LICENCES.search(readme)
    below = readme[heading.end() :] if heading else ""
    lines = [line for line in below.splitlines() if line.startswith("|")]
    return tuple(tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[2:])
