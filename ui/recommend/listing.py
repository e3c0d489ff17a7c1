"""The best plan on every machine and number of them: as columns of a sortable table, and as CSV."""

import csv
import io
from collections.abc import Sequence
from typing import Any, Final

from planner.search.types import Found
from ui.names import card_name
from ui.recommend.wording import rent_text, settings_text
from ui.units import amount
from ui.words import Words

COLUMNS: Final = (
    *("usd", "cards", "gpu", "days", "provider", "plan", "rent", "usd_from", "usd_to", "days_from"),
    *("days_to", "tokens_per_s", "peak", "usable", "usd_per_hour", "region", "date"),
)
"""Columns of the table in order; their heads are the words `recommend.column.<name>`."""


def columns(found: Sequence[Found], words: Words) -> dict[str, list[Any]]:
    """Values by column, a row each; None where a figure is not known."""
    records = [_record(one, words) for one in found]
    return {name: [record[name] for record in records] for name in COLUMNS}


def _record(one: Found, words: Words) -> dict[str, Any]:
    cost = one.cost
    return {
        "usd": one.usd,
        "usd_from": None if cost is None else cost.low_usd,
        "usd_to": None if cost is None else cost.high_usd,
        "days": one.days,
        "days_from": None if cost is None else cost.low_days,
        "days_to": None if cost is None else cost.high_days,
        "cards": one.devices,
        "gpu": card_name(one.machine.gpu.name),
        "provider": one.machine.provider,
        "rent": rent_text(one, words),
        "plan": settings_text(one.choice, words),
        "tokens_per_s": one.tokens_per_s,
        "peak": round(amount(one.peak_bytes), 2),
        "usable": round(amount(one.usable_bytes), 2),
        "usd_per_hour": one.usd_per_hour,
        "region": one.machine.region,
        "date": one.machine.date or "",
    }


def plan_csv(found: Sequence[Found]) -> str:
    """The rows with stable column names and every figure unrounded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = sorted({name for one in found for name in one.choice.settings})
    writer.writerow(
        [
            *("provider", "machine", "gpu_id", "region", "count", "devices", "usd_per_hour"),
            *("usd", "low_usd", "high_usd", "days", "low_days", "high_days", "tokens_per_s"),
            *("peak_bytes", "usable_bytes", "price_date", "price_source"),
            *names,
        ]
    )
    for one in found:
        machine, cost = one.machine, one.cost
        priced = (
            [None] * 6
            if cost is None
            else [cost.usd, cost.low_usd, cost.high_usd, cost.days, cost.low_days, cost.high_days]
        )
        writer.writerow(
            [
                *(machine.provider, machine.name, machine.gpu.id, machine.region),
                *(one.count, one.devices, one.usd_per_hour, *priced, one.tokens_per_s),
                *(one.peak_bytes, one.usable_bytes, machine.date, machine.source),
                *(one.choice.settings.get(name) for name in names),
            ]
        )
    return out.getvalue()
