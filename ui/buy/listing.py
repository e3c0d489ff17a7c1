"""The builds as CSV, every figure unrounded."""

import csv
import io
from collections.abc import Sequence
from typing import Any, Final

from ui.buy.columns import Column

HEAD: Final = (
    *(
        "build",
        "cards",
        "verdict",
        "headroom_bytes",
        "divided",
        "tokens_per_s",
        "tokens_per_s_low",
        "tokens_per_s_high",
    ),
    *(
        "price_usd",
        "price_from",
        "price_date",
        "power_w",
        "power_from",
        "rent_usd_per_hour",
        "rent_from",
        "rent_date",
    ),
    *("running_usd_per_month", "pay_back_month", "break_even_month_sold", "least_use_frac"),
    *(
        "owned_usd_per_million_tokens",
        "rented_usd_per_million_tokens",
        "largest_model",
        "longest_sequence_tokens",
    ),
)


def build_csv(columns: Sequence[Column]) -> str:
    """A line a build with stable column names; empty where a figure is not known."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    for column in columns:
        writer.writerow(["" if cell is None else cell for cell in _cells(column)])
    return out.getvalue()


def _verdict(column: Column) -> str | None:
    if column.problem is not None:
        return "not_counted"
    return None if column.on.plan is None else column.on.plan.verdict.value


def _cells(column: Column) -> list[Any]:
    plan, rate, costs = column.on.plan, column.on.rate, column.costs
    rented = costs is not None and costs.rented
    cards = " + ".join(f"{count} x {gpu.id}" for gpu, count in column.cards)
    return [
        *(column.letter, cards, _verdict(column)),
        None if plan is None else plan.worst.headroom_bytes,
        column.on.divided if column.problem is None else None,
        *(
            (None,) * 3
            if rate is None
            else (rate.tokens_per_s, rate.tokens_per_s / rate.high_frac, rate.tokens_per_s / rate.low_frac)
        ),
        *(
            (None,) * 3
            if column.price is None
            else (column.price.value, column.price.source or column.price.how, column.price.date)
        ),
        *(
            (None,) * 2
            if column.power is None
            else (column.power.value, column.power.source or column.power.how)
        ),
        *(
            (None,) * 3
            if column.rent is None
            else (column.rent.value, column.rent.source or column.rent.how, column.rent.date)
        ),
        None if costs is None else costs.found.running_usd_per_month,
        *(
            (None,) * 3
            if costs is None or not rented
            else (costs.found.pay_back_month, costs.found.break_even_month, costs.least_use_frac)
        ),
        None if costs is None else costs.owned_usd,
        None if costs is None else costs.rented_usd,
        *(column.largest, column.longest),
    ]
