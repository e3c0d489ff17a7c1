"""Machines from a table of prices: of one kind, and those that say what they are."""

from collections.abc import Iterable
from datetime import date
from typing import Final, Literal

from planner.hardware import Tables
from planner.prices import Freshness, Offer, freshness
from planner.search.rigs import IN_ONE_MACHINE
from planner.search.types import Fails, Machine
from planner.throughput import links as ln
from planner.units import gib_bytes

Kind = Literal["on_demand", "spot", "marketplace"]
KINDS: Final[tuple[Kind, ...]] = ("on_demand", "spot", "marketplace")
PER_GPU: Final = "per GPU: "
"""How the table begins the type of a price for single cards, of which any number may be rented."""
OWN_STACK: Final = frozenset({"AWS", "Google"})
"""Makers whose accelerators run neither CUDA nor ROCm, which every runtime here is planned for."""


def machines_of(
    offers: Iterable[Offer],
    tables: Tables,
    kind: Kind,
    *,
    today: date,
    providers: frozenset[str] = frozenset(),
    regions: frozenset[str] = frozenset(),
) -> tuple[tuple[Machine, ...], tuple[Offer, ...]]:
    """What can be rented at prices of one kind.

    Args:
        offers: The table.
        tables: Its cards.
        kind: Kinds are never ranked together.
        today: Prices of more than a year are left out: an old one is never called cheapest.
        providers: Wanted ones; empty for all.
        regions: Wanted ones; empty for all.

    Returns:
        Machines, and the offers of the kind that no plan can be made for: no card or count, a share of a card, a
        maker's own accelerator, an old price.
    """
    machines, left = [], []
    for offer in offers:
        usd = offer.spot_usd_per_hour if kind == "spot" else offer.usd_per_hour
        if usd is None or kind not in {"spot", offer.price_kind}:
            continue
        if (providers and offer.provider not in providers) or (regions and offer.region not in regions):
            continue
        machine = None if _is_old(offer, today) else machine_of(offer, tables, kind)
        if machine is None:
            left.append(offer)
        else:
            machines.append(machine)
    return tuple(machines), tuple(left)


def machine_of(offer: Offer, tables: Tables, kind: Kind) -> Machine | None:
    """An offer as a machine; None where it does not say which whole cards it has."""
    gpu = tables.gpus.get(offer.gpu_id or "")
    usd = offer.spot_usd_per_hour if kind == "spot" else offer.usd_per_hour
    if gpu is None or usd is None or gpu.vendor in OWN_STACK:
        return None
    if offer.gpu_count is None or offer.gpu_count < 1:
        return None
    per_card = offer.instance_type.startswith(PER_GPU)
    cards = IN_ONE_MACHINE if per_card else round(offer.gpu_count)
    return Machine(
        name=offer.instance_type.removeprefix(PER_GPU), gpu=gpu, devices=cards * gpu.devices_per_card,
        usd_per_hour=usd, per_card=per_card, spot=kind != "on_demand",
        ram_bytes=None if offer.ram_gib is None or per_card else gib_bytes(offer.ram_gib),
        network_gbit=ln.offered_gbit(offer.provider, offer.instance_type, gpu, tables),
        provider=offer.provider, region=offer.region, date=offer.date, source=offer.source,
    )  # fmt: skip


def left_out(offer: Offer, tables: Tables) -> Fails:
    """Why no plan is made for an offer."""
    gpu = tables.gpus.get(offer.gpu_id or "")
    if gpu is None:
        return Fails.NO_CARD
    if gpu.vendor in OWN_STACK:
        return Fails.OWN_STACK
    if offer.gpu_count is None:
        return Fails.NO_COUNT
    return Fails.SHARE if offer.gpu_count < 1 else Fails.OLD


def _is_old(offer: Offer, today: date) -> bool:
    return freshness(offer.date, today) is Freshness.OLDER
