"""Azure Retail Prices: pages of JSON, 100 to 1000 items each, linked by `NextPageLink`.

Documented at learn.microsoft.com/rest/api/cost-management/retail-prices. US dollars are asked for, and said in
every item.
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from hardware_db.refresh.fetch import FetchError, Getter
from hardware_db.refresh.types import ChangedFormatError, RawPrice, Reading
from planner.units import MIB

PROVIDER: Final = "Azure"
ADDRESS: Final = "https://prices.azure.com/api/retail/prices"
REGIONS: Final = ("eastus", "eastus2", "westeurope")
FAMILIES: Final = ("Standard_NC", "Standard_ND")
MOST_PAGE_BYTES: Final = 8 * MIB
PAGE_LIMIT_S: Final = 30.0
MOST_PAGES: Final = 40
HOUR: Final = "1 Hour"
CURRENCY: Final = "'USD'"
"""With its quotes, as documented; without them the service falls back to its default, which is the same today."""
NEEDED: Final = ("retailPrice", "armSkuName", "armRegionName", "meterName", "productName", "type")


def first_pages() -> tuple[str, ...]:
    """The address to begin with, one for each region and family."""
    return tuple(
        f"{ADDRESS}?currencyCode={quote(CURRENCY)}&$filter={quote(_filter(region, family))}"
        for region in REGIONS
        for family in FAMILIES
    )


def _filter(region: str, family: str) -> str:
    return (
        "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' "
        f"and armRegionName eq '{region}' and contains(armSkuName, '{family}')"
    )


def read(get: Getter, reading: Reading) -> None:
    """Every page of every region and family, put into `reading` page by page.

    Raises:
        FetchError: A page could not be read; pages before it are kept.
        ChangedFormatError: A page does not look as documented.
    """
    for url in first_pages():
        following: str | None = url
        for _ in range(MOST_PAGES):
            if not following:
                break
            following = read_page(get.text(following, MOST_PAGE_BYTES, PAGE_LIMIT_S), reading)
        else:
            if following:
                raise FetchError("too_large", f"{MOST_PAGES} pages")


def read_page(text: str, reading: Reading) -> str | None:
    """One page.

    Returns:
        Address of the next one, None at the end.

    Raises:
        FetchError: `cut_short`: the JSON ends early.
        ChangedFormatError: No list of items, or a next page that is no address.
    """
    try:
        page = json.loads(text)
    except (ValueError, RecursionError) as problem:
        if not text.lstrip().startswith("{"):
            raise ChangedFormatError("JSON") from problem
        raise FetchError("cut_short", str(len(text))) from problem
    items = page.get("Items") if isinstance(page, dict) else None
    if not isinstance(items, list):
        raise ChangedFormatError("Items")
    for item in items:
        _read_item(item, reading)
    following = page.get("NextPageLink")
    if following is not None and not isinstance(following, str):
        raise ChangedFormatError("NextPageLink")
    return following or None


def _read_item(item: Any, reading: Reading) -> None:
    if not isinstance(item, Mapping):
        reading.kept_out.append(("changed_row", "", repr(item)[:60]))
        return
    lacking = [name for name in NEEDED if name not in item]
    if lacking:
        reading.kept_out.append(("changed_row", str(item.get("armSkuName", ""))[:80], ", ".join(lacking)))
        return
    meter, product = str(item["meterName"]), str(item["productName"])
    if item["type"] != "Consumption" or "Windows" in product or "Low Priority" in meter:
        reading.passed_over += 1
        return
    reading.prices.append(
        RawPrice(
            provider=PROVIDER,
            instance_type=str(item["armSkuName"])[:120],
            region=str(item["armRegionName"])[:80],
            price=item["retailPrice"],
            spot=meter.endswith("Spot"),
            currency=str(item.get("currencyCode", "USD"))[:12],
            unit="" if item.get("unitOfMeasure", HOUR) == HOUR else str(item["unitOfMeasure"])[:40],
        )
    )
