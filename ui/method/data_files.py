"""The tables the answers rest on: how many rows, how old, how many figures from memory, under which licence."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from hardware_db import DATA
from planner.hardware import Price, Tables
from ui.method.published import Published

LICENCES: Final = "## Sources and licences"
RECALLED: Final = "recalled"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One table.

    Attributes:
        file: Its name.
        rows: Rows in it.
        oldest: First date that a row carries; None where rows carry none.
        newest: Last one.
        recalled: Rows with a figure written from memory.
        what: Key of the words that say what it holds.
    """

    file: str
    rows: int
    oldest: str | None
    newest: str | None
    recalled: int
    what: str


@lru_cache(maxsize=2)
def data_files(tables: Tables, score: Published) -> tuple[DataFile, ...]:
    """Every table of the project and every file of measurements; reads all rows, so it is kept."""
    gpus, nodes, constants = tables.gpus.values(), tables.nodes, tables.constants.values()
    card_prices = _dates(price for gpu in gpus for price in (gpu.list_price, gpu.street_price))
    models = [tables.models[name] for name in tables.models]
    own = (
        _file("gpus.csv", len(gpus), card_prices, sum(bool(gpu.recalled) for gpu in gpus), "gpus"),
        _file(
            "nodes.csv",
            len(nodes),
            _dates(node.price for node in nodes),
            sum(n.recalled for n in nodes),
            "nodes",
        ),
        _file("cloud.csv", len(tables.offers), [offer.date for offer in tables.offers], 0, "offers"),
        _file(
            "models.jsonl",
            len(models),
            [],
            sum(row.get("source_kind") == RECALLED for row in models),
            "models",
        ),
        _file(
            "constants*.toml",
            len(constants),
            [constant.date for constant in constants],
            sum(constant.recalled for constant in constants),
            "constants",
        ),
        _file("bands.csv", len(tables.bands), [band.made_on for band in tables.bands], 0, "bands"),
        _file("score.json", len(score.points), [score.made_on], 0, "score"),
    )
    measured = tuple(
        DataFile(
            file=item.file,
            rows=item.rows,
            oldest=item.oldest,
            newest=item.newest,
            recalled=0,
            what=item.file.partition(".")[0],
        )
        for item in score.inputs
    )
    return own + measured


def _dates(prices: Iterable[Price | None]) -> list[str]:
    return [price.date for price in prices if price is not None]


def _file(file: str, rows: int, dates: list[str], recalled: int, what: str) -> DataFile:
    return DataFile(
        file=file,
        rows=rows,
        oldest=min(dates, default=None),
        newest=max(dates, default=None),
        recalled=recalled,
        what=what,
    )


@lru_cache(maxsize=1)
def data_licences() -> tuple[tuple[str, ...], ...]:
    """Source, licence and use of the tables, as their README has them."""
    return licence_rows((DATA / "README.md").read_text(encoding="utf-8"))


def licence_rows(readme: str) -> tuple[tuple[str, ...], ...]:
    """The cells of the licence table of a README, head and rule left out."""
    lines = [line for line in readme.partition(LICENCES)[2].splitlines() if line.startswith("|")]
    return tuple(tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[2:])
