"""The last refresh as a file of the user's own, written whole; the shipped table is never touched."""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

from hardware_db.refresh.types import KeptOut, Refresh, SourceReport, State
from planner.prices import Offer, earliest_day
from planner.units import MIB

FILE_NAME: Final = "prices.json"
VERSION: Final = 1
MOST_BYTES: Final = 16 * MIB


class StoreError(OSError):
    """The file could not be written or read.

    Attributes:
        code: `not_writable` or `not_readable`.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code


def save(folder: Path, found: Refresh) -> None:
    """Write a refresh, in place of the one before.

    Raises:
        StoreError: `not_writable`.
    """
    text = json.dumps({"version": VERSION, **asdict(found)}, ensure_ascii=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(prefix="prices-", suffix=".json", dir=folder)
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(folder / FILE_NAME)
    except OSError as problem:
        raise StoreError("not_writable", str(folder)) from problem


def load(folder: Path) -> Refresh | None:
    """The last refresh; None where there is none.

    Raises:
        StoreError: `not_readable`: there is a file and it holds something else.
    """
    path = folder / FILE_NAME
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > MOST_BYTES:
            raise StoreError("not_readable", str(path))
        tree = json.loads(path.read_text(encoding="utf-8"))
        return _refresh(tree)
    except StoreError:
        raise
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise StoreError("not_readable", str(path)) from problem


def _refresh(tree: Mapping[str, Any]) -> Refresh:
    if tree["version"] != VERSION:
        raise ValueError(tree["version"])
    return Refresh(
        made_at=str(tree["made_at"]),
        offers=tuple(_offer(row) for row in tree["offers"]),
        reports=tuple(_report(row) for row in tree["reports"]),
    )


def _offer(row: Mapping[str, Any]) -> Offer:
    """One offer, its numbers looked at: the file is the user's and may have been edited."""
    offer = Offer(**{field.name: row[field.name] for field in fields(Offer)})
    for text in (offer.provider, offer.instance_type, offer.gpu_name, offer.region, offer.source):
        if not isinstance(text, str):
            raise TypeError(text)
    for price in (offer.usd_per_hour, offer.spot_usd_per_hour):
        if price is not None and not 0 < price < float("inf"):
            raise ValueError(price)
    if offer.gpu_count is not None and not 0 < offer.gpu_count < float("inf"):
        raise ValueError(offer.gpu_count)
    if offer.price_kind != "on_demand":
        raise ValueError(offer.price_kind)
    earliest_day(offer.date)
    return offer


def _report(row: Mapping[str, Any]) -> SourceReport:
    kept = tuple(
        KeptOut(
            code=str(one["code"]),
            count=int(one["count"]),
            examples=tuple((str(name), str(given)) for name, given in one["examples"]),
        )
        for one in row["kept_out"]
    )
    plain = {field.name: row[field.name] for field in fields(SourceReport)}
    return SourceReport(**{**plain, "kept_out": kept, "state": State(row["state"])})
