"""The table of hourly prices."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from hardware_db.cells import Row, read_rows
from planner.hardware import Gpu
from planner.prices import Offer, PriceKind

OFFER_COLUMNS = (
    "provider",
    "instance_type",
    "gpu",
    "gpu_key",
    "gpu_id",
    "gpu_count",
    "gpu_mem_gib",
    "vcpus",
    "ram_gib",
    "region",
    "price_kind",
    "gpu_fraction",
    "usd_per_hour",
    "spot_usd_per_hour",
    "usd_per_gpu_hour",
    "catalog_date",
    "source",
)

PRICE_KINDS = ("on_demand", "marketplace", "index")
MAX_USD_PER_HOUR = 1_000
MAX_USD_PER_GPU_HOUR = 60
MIN_USD_PER_GPU_HOUR = 0.01
_ROUNDING_FRAC = 0.01


def read_offers(path: Path, gpus: Mapping[str, Gpu]) -> tuple[Offer, ...]:
    """Every offer, in file order.

    Raises:
        DataError: A cell is not allowed, an offer stands twice, or a card is not in the table of cards.
    """
    offers: list[Offer] = []
    seen: set[tuple[str, ...]] = set()
    for row in read_rows(path, OFFER_COLUMNS):
        offer = _offer(row)
        if offer.gpu_id is not None and offer.gpu_id not in gpus:
            raise row.error("gpu_id", "empty or an id of gpus.csv")
        _check_prices(row, offer)
        key = (
            offer.provider,
            offer.instance_type,
            offer.region,
            offer.price_kind,
            offer.date,
            offer.gpu_id or "",
        )
        if key in seen:
            raise row.error("instance_type", "one row for a provider, type, region, kind, date and card")
        seen.add(key)
        offers.append(offer)
    return tuple(offers)


def _offer(row: Row) -> Offer:
    return Offer(
        provider=row.text("provider"),
        instance_type=row.text("instance_type"),
        gpu_name=row.text("gpu"),
        gpu_id=row.optional_text("gpu_id"),
        gpu_count=row.optional_number("gpu_count", 0.01, 128),
        gpu_memory_gib=row.optional_number("gpu_mem_gib", 1, 1_000),
        gpu_frac=row.optional_number("gpu_fraction", 0.01, 1),
        vcpus=row.optional_number("vcpus", 1, 2_000),
        ram_gib=row.optional_number("ram_gib", 1, 32_000),
        region=row.text("region"),
        price_kind=cast("PriceKind", row.choice("price_kind", PRICE_KINDS)),
        usd_per_hour=row.optional_number("usd_per_hour", 0.001, MAX_USD_PER_HOUR),
        spot_usd_per_hour=row.optional_number("spot_usd_per_hour", 0.001, MAX_USD_PER_HOUR),
        usd_per_gpu_hour=row.optional_number("usd_per_gpu_hour", MIN_USD_PER_GPU_HOUR, MAX_USD_PER_GPU_HOUR),
        date=row.day("catalog_date"),
        source=row.text("source"),
    )


def _check_prices(row: Row, offer: Offer) -> None:
    if offer.usd_per_hour is None and offer.spot_usd_per_hour is None:
        raise row.error("usd_per_hour", "a price here or in spot_usd_per_hour")
    if offer.usd_per_hour is None or offer.usd_per_gpu_hour is None or offer.gpu_count is None:
        return
    expected = offer.usd_per_hour / offer.gpu_count
    if abs(offer.usd_per_gpu_hour / expected - 1) > _ROUNDING_FRAC:
        raise row.error("usd_per_gpu_hour", f"usd_per_hour / gpu_count = {expected:.4g}")
