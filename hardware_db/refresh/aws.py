"""The AWS price list of EC2 in one region: a CSV of several hundred MB, read line by line and not kept.

Documented under "Reading the service price list file" (docs.aws.amazon.com/awsaccountbilling): five lines about the
file, then the names of the columns, then a line a price.
"""

import csv
from collections.abc import Iterator
from typing import Final

from hardware_db.refresh.fetch import Getter
from hardware_db.refresh.types import ChangedFormatError, RawPrice, Reading
from planner.units import MIB

PROVIDER: Final = "AWS"
REGION: Final = "us-east-1"
ADDRESS: Final = (
    f"https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/{REGION}/index.csv"
)
MOST_BYTES: Final = 1536 * MIB
LIMIT_S: Final = 600.0
MOST_HEAD_LINES: Final = 12
NEEDED: Final = (
    "TermType",
    "Unit",
    "PricePerUnit",
    "Currency",
    "Instance Type",
    "Operating System",
    "Tenancy",
    "Pre Installed S/W",
    "CapacityStatus",
)
WANTED: Final = {
    "TermType": "OnDemand",
    "Operating System": "Linux",
    "Tenancy": "Shared",
    "Pre Installed S/W": "NA",
    "CapacityStatus": "Used",
}
"""What tells the plain price of a Linux machine from reservations, licences and dedicated hosts."""
LATER: Final = {"MarketOption": "OnDemand"}
"""The same, in columns that older files do not have: capacity blocks are paid at once, their hours stand at nothing."""
FAMILIES: Final = ("g", "p", "trn", "inf", "dl")


def read(get: Getter, reading: Reading) -> None:
    """The file, put into `reading` line by line.

    Raises:
        FetchError: It could not be read to its end; lines before that are kept.
        ChangedFormatError: A column is missing.
    """
    read_lines(get.lines(ADDRESS, MOST_BYTES, LIMIT_S), reading)


def read_lines(lines: Iterator[str], reading: Reading) -> None:
    """As `read`, of lines at hand."""
    rows = csv.reader(lines)
    place = _columns(rows, reading)
    wanted = WANTED | {name: value for name, value in LATER.items() if name in place}
    for cells in rows:
        if len(cells) != len(place):
            reading.kept_out.append(("short_row", "", f"{len(cells)} / {len(place)}"))
            continue
        kind = cells[place["Instance Type"]]
        others = any(cells[place[name]] != value for name, value in wanted.items())
        if others or not kind.startswith(FAMILIES):
            reading.passed_over += 1
            continue
        unit = cells[place["Unit"]]
        reading.prices.append(
            RawPrice(
                provider=PROVIDER,
                instance_type=kind[:120],
                region=REGION,
                price=cells[place["PricePerUnit"]],
                currency=cells[place["Currency"]][:12],
                unit="" if unit == "Hrs" else unit[:40],
            )
        )


def _columns(rows: Iterator[list[str]], reading: Reading) -> dict[str, int]:
    """The place of every column; the day of the file is noted on the way."""
    for _, cells in zip(range(MOST_HEAD_LINES), rows, strict=False):
        if cells[:1] == ["Publication Date"] and len(cells) > 1:
            reading.dated = cells[1][:10]
        if cells[:1] == ["SKU"]:
            place = {name: i for i, name in enumerate(cells)}
            lacking = [name for name in NEEDED if name not in place]
            if lacking:
                raise ChangedFormatError(", ".join(lacking))
            return place
    raise ChangedFormatError("SKU")
