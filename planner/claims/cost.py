"""Claims about prices: what machines cost, how long they run, when they pay back."""

from dataclasses import dataclass
from typing import Final

from planner.claims.bytes_per_parameter import BILLION
from planner.claims.types import Claim, Figure, Outcome, worked
from planner.cost.buy_or_rent import Ownership, Rent, buy_or_rent
from planner.hardware import Gpu, Tables
from planner.prices import Offer
from planner.throughput.links import node_of
from planner.units import GB

DAY_HOURS: Final = 24
STATES: Final = 12
JOB_TOKENS: Final = BILLION
"""The articles name no amount of data; this one is stated beside every figure."""
USD_PER_KWH: Final = 0.12
HOSTING_USD_PER_MONTH: Final = 1500
CONSUMER_MARKS: Final = ("GeForce",)
H100: Final = "h100-sxm-80gb"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudRow:
    """A row of the articles' table of clouds."""

    name: str
    instance: str
    gpu_id: str
    cards: int
    price: float
    days: int
    in_usd: bool = True


CLOUDS: Final = (
    CloudRow(name="aws", instance="p4d.24xlarge", gpu_id="a100-sxm-40gb", cards=8, price=32.77, days=14),
    CloudRow(name="azure", instance="Standard_ND96amsr_A100_v4", gpu_id="a100-sxm-80gb", cards=8, price=40.96, days=9),
    CloudRow(name="gcp", instance="a3-megagpu-8g", gpu_id=H100, cards=8, price=49.5, days=6),
    CloudRow(
        name="alibaba", instance="ecs.gn7e-c16g1.32xlarge", gpu_id="a100-sxm-80gb", cards=8, price=298, days=10,
        in_usd=False,
    ),
)  # fmt: skip


def cheapest(instance: str, tables: Tables) -> Offer | None:
    """The cheapest region of an instance type."""
    known = [
        offer
        for offer in tables.offers
        if offer.instance_type == instance and offer.usd_per_hour and offer.price_kind == "on_demand"
    ]
    return min(known, key=lambda offer: offer.usd_per_hour or 0.0, default=None)


def g21(tables: Tables) -> Claim:
    """The table's totals are its own prices times its days; prices and fit are another matter."""
    figures = []
    for row in CLOUDS:
        total = row.price * row.days * DAY_HOURS
        said = {"aws": 11_010.72, "azure": 8_847.36, "gcp": 7_128.0, "alibaba": 71_520.0}[row.name]
        symbols = {"p": row.price, "d": row.days, "h": DAY_HOURS}
        figures.append(
            worked(f"total_{row.name}", said, "usd" if row.in_usd else "number", "p*d*h", symbols, total)
        )
        offer = cheapest(row.instance, tables)
        if offer is not None and offer.usd_per_hour:
            price = row.price if row.in_usd else None
            figures.append(
                Figure(name=f"hourly_{row.name}", said=price, found=offer.usd_per_hour, unit="usd")
            )
        held = row.cards * (tables.gpus[row.gpu_id].memory_nominal_gb or 0.0) * GB
        figures.append(Figure(name=f"held_{row.name}", said=70 * BILLION * STATES, found=held, unit="bytes"))
    a10 = [offer for offer in tables.offers if "gn7i-" in offer.instance_type]
    others = sum(offer.gpu_id != "a10-24gb" for offer in a10)
    figures.append(Figure(name="gn7i_with_a100", said=len(a10), found=others, unit="count"))
    return Claim(id="g21", outcome=Outcome.WRONG, figures=tuple(figures))


def _rents(tables: Tables) -> list[float]:
    """Hourly prices of eight H100 on demand, cheapest first."""
    return sorted(
        offer.usd_per_hour
        for offer in tables.offers
        if offer.gpu_id == H100
        and offer.gpu_count == 8
        and offer.price_kind == "on_demand"
        and offer.usd_per_hour
    )


def pay_back(tables: Tables, rent_usd_per_hour: float, utilisation_frac: float) -> int | None:
    """Month in which a server of eight H100 has cost no more than renting one, kept and not sold."""
    node = node_of(tables.gpus[H100], tables)
    if node is None or node.price is None or node.power_w is None:
        return None
    own = Ownership(
        purchase_usd=node.price.usd, power_w=node.power_w, usd_per_kwh=USD_PER_KWH,
        hosting_usd_per_month=HOSTING_USD_PER_MONTH,
    )  # fmt: skip
    return buy_or_rent(own, Rent(usd_per_hour=rent_usd_per_hour), utilisation_frac).pay_back_month


def _pay_back(name: str, tables: Tables) -> Claim:
    """By use and by rent; a machine that never pays back within ten years is told by a flag."""
    rents = _rents(tables)
    figures: list[Figure] = []
    for label, rent in (("cheapest", rents[0]), ("middle", rents[len(rents) // 2])):
        figures.append(Figure(name=f"rent_{label}", said=None, found=rent, unit="usd"))
        for use in (0.05, 0.2, 0.6, 1.0):
            month, ending = pay_back(tables, rent, use), f"{label}_{round(use * 100)}_percent"
            if month is None:
                figures.append(Figure(name=f"never_{ending}", said=None, found=1, unit="flags"))
            else:
                figures.append(Figure(name=f"month_{ending}", said=15, found=month, unit="months"))
    return Claim(id=name, outcome=Outcome.DEPENDS, figures=tuple(figures))


def g18(tables: Tables) -> Claim:
    """Hardware pays back in 12 to 18 months: by utilisation, it may be sooner, later or never."""
    return _pay_back("g18", tables)


def e3(tables: Tables) -> Claim:
    """Buy or rent: the same question."""
    return _pay_back("e3", tables)


def e1(tables: Tables) -> Claim:
    """Classes of cards: what the table holds of each."""
    consumer = [g for g in tables.gpus.values() if g.name.startswith(CONSUMER_MARKS)]
    compute = [
        g for g in tables.gpus.values() if "SXM" in (g.form_factor or "") and (g.memory_nominal_gb or 0) >= 80
    ]
    figures = (
        Figure(name="consumer_most", said=24 * GB, found=_most(consumer) * GB, unit="bytes"),
        Figure(name="compute_most", said=141 * GB, found=_most(compute) * GB, unit="bytes"),
        Figure(name="consumer_cards", said=None, found=len(consumer), unit="count"),
        Figure(name="compute_cards", said=None, found=len(compute), unit="count"),
    )
    return Claim(id="e1", outcome=Outcome.DEPENDS, figures=figures)


def _most(cards: list[Gpu]) -> float:
    return max((card.memory_nominal_gb or 0.0 for card in cards), default=0.0)


def e4(tables: Tables) -> Claim:
    """What was to come: HBM3e of 141 to 288 GB, NVLink of 900 to 1800 GB/s."""
    modern = [g for g in tables.gpus.values() if g.memory_type == "HBM3e" and g.vendor == "NVIDIA"]
    memory = [g.memory_nominal_gb or 0.0 for g in modern]
    links = [g.interconnect_bidir_bytes_per_s for g in modern if g.interconnect_bidir_bytes_per_s]
    figures = (
        Figure(name="least_memory", said=141 * GB, found=min(memory) * GB, unit="bytes"),
        Figure(name="most_memory", said=288 * GB, found=max(memory) * GB, unit="bytes"),
        Figure(name="most_link", said=1800 * GB, found=max(links), unit="bytes_per_s"),
    )
    return Claim(id="e4", outcome=Outcome.RIGHT, figures=figures)
