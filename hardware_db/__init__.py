"""Hardware, prices, models and fitted constants as data files, each row with its source and date.

`load_tables()` reads cards, constants and bands, and indexes the models; nodes and offers are read when first
looked at. Every reader raises `DataError` with file, line, column, value and what is allowed.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from hardware_db.constants import read_bands, read_constants
from hardware_db.errors import DataError
from hardware_db.gpu_rows import read_gpus
from hardware_db.lazy import LazySequence
from hardware_db.model_rows import read_models
from hardware_db.node_rows import read_nodes
from hardware_db.offer_rows import read_offers
from planner.hardware import Node, Tables
from planner.prices import Offer, PurchasePrice

__all__ = ["DATA", "DataError", "check_all", "load_tables", "nodes", "offers", "purchase_prices"]

DATA = Path(__file__).parent / "data"


@lru_cache(maxsize=8)
def load_tables(directory: Path | None = None) -> Tables:
    """The tables a plan looks up; read once for a directory.

    Args:
        directory: Where the data files are; the project's own by default.

    Raises:
        DataError: Cards, constants or bands have something that is not allowed. Rows of models, nodes and
            offers are checked when they are looked at; `check_all` looks at all of them.
    """
    where = directory or DATA
    constants = read_constants(where / "constants.toml")
    for path in sorted(where.glob("constants_*.toml")):
        constants |= read_constants(path)
    models, pipelines = read_models(where / "models.jsonl")
    return Tables(
        gpus=MappingProxyType(read_gpus(where / "gpus.csv", constants)),
        models=models,
        pipelines=pipelines,
        constants=MappingProxyType(constants),
        bands=read_bands(where / "bands.csv"),
        nodes=LazySequence(lambda: nodes(directory)),
        offers=LazySequence(lambda: offers(directory)),
    )


@lru_cache(maxsize=8)
def nodes(directory: Path | None = None) -> tuple[Node, ...]:
    """Every server of the table.

    Raises:
        DataError: A cell is not allowed, or a card is unknown.
    """
    return read_nodes((directory or DATA) / "nodes.csv", load_tables(directory).gpus)


@lru_cache(maxsize=8)
def offers(directory: Path | None = None) -> tuple[Offer, ...]:
    """Every hourly price of the table.

    Raises:
        DataError: A cell is not allowed, or a card is unknown.
    """
    return read_offers((directory or DATA) / "cloud.csv", load_tables(directory).gpus)


def purchase_prices(directory: Path | None = None) -> tuple[PurchasePrice, ...]:
    """List and street prices of every card that has one, in table order, list before street.

    Raises:
        DataError: As `load_tables`.
    """
    found: list[PurchasePrice] = []
    for gpu in load_tables(directory).gpus.values():
        if gpu.list_price is not None:
            found.append(PurchasePrice(gpu_id=gpu.id, kind="list", price=gpu.list_price))
        if gpu.street_price is not None:
            found.append(PurchasePrice(gpu_id=gpu.id, kind="street", price=gpu.street_price))
    return tuple(found)


def check_all(directory: Path | None = None) -> Mapping[str, int]:
    """Reads and checks every row of every file, and counts them.

    Raises:
        DataError: The first thing that is not allowed.
    """
    tables = load_tables(directory)
    return {
        "gpus": len(tables.gpus),
        "models": sum(1 for model_id in tables.models if tables.models[model_id]),
        "pipelines": sum(1 for model_id in tables.pipelines if tables.pipelines[model_id]),
        "constants": len(tables.constants),
        "bands": len(tables.bands),
        "nodes": len(tables.nodes),
        "offers": len(tables.offers),
    }
