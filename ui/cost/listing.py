"""The list of prices: as columns of a sortable table, and as CSV with every figure unrounded."""

import csv
import io
from collections.abc import Sequence
from datetime import date
from typing import Any, Final

from ui.cost.choice import card_of
from ui.cost.rows import Row
from ui.cost.wording import age_text, rent_text, verdict_text
from ui.names import card_name
from ui.units import amount
from ui.words import Words

COLUMNS: Final = (
    *("usd_per_hour", "cards", "gpu", "usd_per_million", "headroom", "verdict", "provider", "name"),
    *("usd_per_gpu_hour", "date", "age", "gib_each", "gib_total", "region", "rent", "source"),
)
"""Columns of the table in order; their heads are the words `cost.column.<name>`."""


def columns(rows: Sequence[Row], today: date, words: Words) -> dict[str, list[Any]]:
    """Values by column, a row each; None where a figure is not known or would be a guess."""
    records = [_record(row, today, words) for row in rows]
    return {name: [record[name] for record in records] for name in COLUMNS}


def _record(row: Row, today: date, words: Words) -> dict[str, Any]:
    quote, rented = row.quote, row.rented
    used = None if rented is None else rented.used
    each = _gib_each(row)
    headroom = row.headroom_bytes
    return {
        "usd_per_hour": _rounded(row.usd_per_hour),
        "usd_per_million": _rounded(row.usd_per_million_tokens),
        "provider": quote.provider,
        "name": quote.name,
        "gpu": card_name(card_of(row)),
        "cards": used,
        "gib_each": each,
        "gib_total": None if each is None or used is None else each * used,
        "headroom": None if headroom is None else round(amount(headroom), 2),
        "verdict": verdict_text(row, words),
        "usd_per_gpu_hour": _rounded(quote.usd_per_gpu_hour),
        "rent": rent_text(row, words),
        "region": quote.region,
        "date": quote.date or "",
        "age": age_text(row, today, words),
        "source": quote.source or words("cost.age.own"),
    }


def _rounded(amount: float | None) -> float | None:
    """A price without the dust of its multiplication."""
    return None if amount is None else round(amount, 4)


def _gib_each(row: Row) -> float | None:
    """Memory of one card: of the hardware table where the card is known."""
    nominal = None if row.gpu is None else row.gpu.memory_nominal_bytes
    return None if nominal is None else round(amount(nominal), 1)


def price_csv(rows: Sequence[Row]) -> str:
    """The rows with stable column names, whole bytes and prices as published."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            *("price_kind", "provider", "instance_type", "gpu_id", "gpu_name", "region", "date", "source"),
            *("usd_per_hour_published", "gpus_published", "usd_per_gpu_hour"),
            *("instances", "gpus_paid", "gpus_used", "usd_per_hour_job", "status", "reason"),
            *("peak_bytes", "headroom_bytes", "tokens_per_s", "usd_per_million_tokens"),
        ]
    )
    for row in rows:
        quote, rented, fit = row.quote, row.rented, row.fit
        cells = [
            *(quote.kind.value, quote.provider, quote.name, quote.gpu_id, quote.gpu_name, quote.region),
            *(quote.date, quote.source, quote.usd_per_hour, quote.cards, quote.usd_per_gpu_hour),
            *((None, None, None) if rented is None else (rented.instances, rented.paid, rented.used)),
            *(row.usd_per_hour, row.status.value, row.reason.value if row.reason else None),
            *((None, None) if fit is None else (fit.peak_bytes, fit.headroom_bytes)),
            None if fit is None or fit.rate is None else fit.rate.tokens_per_s,
            row.usd_per_million_tokens,
        ]
        writer.writerow(["" if cell is None else cell for cell in cells])
    return out.getvalue()
