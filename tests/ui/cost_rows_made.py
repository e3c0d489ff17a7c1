"""Offers, quotes and rows made by hand, for the tests of Cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from planner.ledger import Category
from planner.prices import Offer
from planner.units import gib_bytes
from ui import answers
from ui.answers import answer
from ui.cost.layout import Rented, layout_of
from ui.cost.quotes import Kind, Quote, quotes
from ui.cost.replans import Fit, Replans
from ui.cost.rows import Row, Status, rows_of
from ui.document import canonical
from ui.examples import default_document

if TYPE_CHECKING:
    from planner.plan_types import Plan
    from ui.document import Document

TODAY = date(2026, 11, 29)


def offer(**changes: object) -> Offer:
    """An instance of eight H100 at $24 an hour, $12 as spot."""
    base = Offer(
        provider="Cloud A",
        instance_type="big.8x",
        gpu_name="H100",
        gpu_id="h100-sxm-80gb",
        gpu_count=8,
        gpu_memory_gib=80,
        gpu_frac=None,
        vcpus=None,
        ram_gib=None,
        region="west",
        price_kind="on_demand",
        usd_per_hour=24.0,
        spot_usd_per_hour=12.0,
        usd_per_gpu_hour=3.0,
        date="2026-10-01",
        source="a test",
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def quote(**changes: object) -> Quote:
    """The on-demand price of `offer`."""
    return replace(quotes([offer()])[0], **changes)  # type: ignore[arg-type]


def planned(document: Document) -> Plan:
    found = answer(document).plan
    assert found is not None
    return found


def put_to(document: Document, *given: Quote) -> tuple[Row, ...]:
    return rows_of(given, layout_of(planned(document)), Replans(canonical(document)))


def row(
    kind: Kind = Kind.ON_DEMAND,
    *,
    usd: float = 1.0,
    headroom_gib: float = 10,
    status: Status = Status.FITS,
    day: str | None = "2026-10-01",
    used: int = 1,
    name: str = "one",
    on_demand: float | None = None,
) -> Row:
    """A row made by hand: one instance with `used` cards."""
    fit = Fit(
        verdict=answers.answer(default_document()).plan.verdict,  # type: ignore[union-attr]
        peak_bytes=1,
        headroom_bytes=gib_bytes(headroom_gib),
        largest=Category.LOGITS,
    )
    made = quote(kind=kind, usd_per_hour=usd, date=day, name=name, on_demand_usd_per_hour=on_demand)
    gpu = answers.tables().gpus["h100-sxm-80gb"]
    rented = Rented(instances=1, paid=used, used=used)
    return Row(quote=made, status=status, gpu=gpu, fit=fit, rented=rented)
