"""Machines and how many of them: every distinct set of cards that plans are made for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from planner.hardware import Gpu, Tables
from planner.scenario import Links
from planner.search.types import Machine
from planner.search.wiring import CardLinks, card_links
from planner.throughput import links as ln

COUNTS: Final = tuple(2**k for k in range(11))
IN_ONE_MACHINE: Final = 8
"""Cards at a price each are taken to sit in machines of eight."""


@dataclass(frozen=True, slots=True)
class Rig:
    """Cards that a plan runs on.

    Attributes:
        gpu: The card.
        per_machine: Devices of a machine.
        devices: Devices of the job.
        links: How they are joined.
        ram_bytes: Host memory of a machine; None where not told.
        network_gbit: Network of the machine, where the offer itself is in the table of servers.
    """

    gpu: Gpu
    per_machine: int
    devices: int
    links: CardLinks
    ram_bytes: int | None
    network_gbit: float | None = None

    @property
    def cards(self) -> tuple[str, int, int, float | None]:
        """Equal for rigs that have the same plans, host memory apart."""
        return self.gpu.id, self.per_machine, self.devices, self.network_gbit

    @property
    def per_node(self) -> int:
        """Devices that reach each other without the network."""
        return min(self.links.domain, self.devices)


@dataclass(frozen=True, slots=True)
class Rent:
    """A number of machines.

    Attributes:
        count: Machines; for a price per card, cards.
        rig: What of them is used.
        usd_per_hour: All of them; None for cards that are owned.
    """

    count: int
    rig: Rig
    usd_per_hour: float | None


def rents(machine: Machine, most_cards: int, links: Links, tables: Tables) -> tuple[Rent, ...]:
    """Every number of machines that is tried.

    Numbers are powers of two. More than one machine only where the table knows the network between them; a part of a
    server whose cards share a fabric is rented once, as nothing is known of the way from it to another part. Where
    the cards are no power of two the largest below them is used as well.

    Args:
        machine: What is rented.
        most_cards: Most devices.
        links: The question's own links.
        tables: Cards and servers.
    """
    own = machine.network_gbit if links.inter_node_gbit is None else None
    known = links if own is None else links.model_copy(update={"inter_node_gbit": own})
    return tuple(
        Rent(count, _rig(machine, per, used, known, own, tables), _usd(machine, count))
        for count, per, held in _held(machine, most_cards, known, tables)
        for used in dict.fromkeys((held, 2 ** (held.bit_length() - 1)))
    )


def _rig(
    machine: Machine, per: int, used: int, links: Links, network_gbit: float | None, tables: Tables
) -> Rig:
    gpu = machine.gpu
    own = network_gbit if used > per else None
    return Rig(gpu, per, used, card_links(gpu, per, links, tables), machine.ram_bytes, own)


def _held(machine: Machine, most: int, links: Links, tables: Tables) -> Iterator[tuple[int, int, int]]:
    """Machines (or cards), devices of one, and devices in all."""
    gpu, per = machine.gpu, machine.devices
    several = ln.joins(gpu, per, links, tables)
    if machine.per_card:
        step = gpu.devices_per_card
        for count in COUNTS:
            devices = count * step
            if devices <= most and (devices <= per or (several and devices % per == 0)):
                yield count, min(per, devices) if devices <= per else per, devices
        return
    for count in COUNTS:
        within = machine.most is None or count <= machine.most
        if count * per <= most and within and (count == 1 or several):
            yield count, per, count * per


def _usd(machine: Machine, count: int) -> float | None:
    return None if machine.usd_per_hour is None else machine.usd_per_hour * count


def owned(gpu: Gpu, devices: int, *, ram_bytes: int | None = None) -> tuple[Machine, ...]:
    """Cards that are there, in one machine: all of them, and every power of two of them."""
    sizes = sorted({devices, *(count for count in COUNTS if count <= devices)})
    return tuple(
        Machine(name=gpu.name, gpu=gpu, devices=size, usd_per_hour=None, most=1, ram_bytes=ram_bytes)
        for size in sizes
    )
