"""How fast bytes move between cards, nodes, host and disk, and how long a collective takes.

Rates are one direction, bytes per second and device. None = not in the tables.
"""

import re
from typing import Final

from planner.hardware import Gpu, Node, Tables
from planner.scenario import Hardware, Links
from planner.units import GB

PCIE_BYTES_PER_S: Final = {3: 16 * GB, 4: 32 * GB, 5: 64 * GB, 6: 128 * GB}
"""x16, one direction, by generation; both directions together carry twice that (PCI-SIG)."""
NVLINK_BYTES_PER_S: Final = {1: 80 * GB, 2: 150 * GB, 3: 300 * GB, 4: 450 * GB, 5: 900 * GB}
"""All links of a data-centre card, one direction, by generation (NVIDIA)."""
BITS: Final = 8
LANES: Final = 16
MODULES: Final = ("SXM", "OAM", "rack", "module")
"""Form factors whose cards are joined by the maker's fabric; a bridge between PCIe cards is the user's to name."""

_NAMED = re.compile(r"(pcie|nvlink)(\d)(?:_x(\d+))?")


def named_link(name: str) -> float | None:
    """The rate of `pcie4_x16`, `nvlink4` and the like."""
    match = _NAMED.fullmatch(name)
    if match is None:
        return None
    generation = int(match[2])
    if match[1] == "nvlink":
        return NVLINK_BYTES_PER_S.get(generation)
    whole = PCIE_BYTES_PER_S.get(generation)
    return None if whole is None else whole * int(match[3] or LANES) / LANES


def has_fabric(gpu: Gpu) -> bool:
    """Whether every card comes with a fast link to its neighbours."""
    return gpu.interconnect_bytes_per_s is not None and any(
        word in (gpu.form_factor or "") for word in MODULES
    )


def peer_link(gpu: Gpu, links: Links) -> tuple[float | None, bool]:
    """Card to card inside a node: the rate, and whether it is a fabric (else PCIe through the host)."""
    if links.intra_node is not None:
        return named_link(links.intra_node), links.intra_node.startswith("nvlink")
    if has_fabric(gpu):
        return gpu.interconnect_bytes_per_s, True
    return gpu.pcie_bytes_per_s, False


def host_link(gpu: Gpu, links: Links) -> float | None:
    """Host memory to card."""
    return named_link(links.host) if links.host is not None else gpu.pcie_bytes_per_s


def node_of(gpu: Gpu, tables: Tables) -> Node | None:
    """The first server of the table with this card, else one with cards of its generation and form."""
    same = next((node for node in tables.nodes if node.gpu_id == gpu.id), None)
    if same is not None or gpu.arch is None:
        return same
    return next((node for node in tables.nodes if _alike(tables.gpus[node.gpu_id], gpu)), None)


def _alike(one: Gpu, other: Gpu) -> bool:
    return (one.arch, one.form_factor) == (other.arch, other.form_factor)


def fast_domain(gpu: Gpu, chassis: int, node: Node | None) -> int:
    """Devices that reach each other without the network: a machine's, or a rack's where whole trays of it are joined.

    A machine with a part of a server's cards is no door to the others: eight machines of one H100 each have eight
    network cards between them and no NVLink.

    Args:
        gpu: The card.
        chassis: Devices of one machine.
        node: The server of the table that it is like.
    """
    if node is None or not has_fabric(gpu) or chassis % node.gpus_per_node:
        return chassis
    return max(chassis, node.scale_up_gpus)


def network(links: Links, per_node: int, node: Node | None) -> float | None:
    """Node to node, per card: the user's rate of a whole node divided over its cards, else the table's."""
    if links.inter_node_gbit is not None:
        return links.inter_node_gbit * GB / BITS / per_node
    return None if node is None else node.nic_bytes_per_s


def offered_gbit(provider: str, instance_type: str, gpu: Gpu, tables: Tables) -> float | None:
    """Network of a machine that a cloud rents, where the table of servers names that very machine; else None.

    Args:
        provider: Who lets the machine.
        instance_type: Its name there.
        gpu: Its card.
        tables: With the servers.

    Returns:
        Gbit/s of all its network cards, one direction.
    """
    name = f"{provider} {instance_type}"
    found = next((node for node in tables.nodes if node.name == name and node.gpu_id == gpu.id), None)
    return None if found is None else found.nic_bytes_per_s_per_node * BITS / GB


def joins(gpu: Gpu, per_machine: int, links: Links, tables: Tables) -> bool:
    """Whether several machines make one job: something tells of the network between them.

    Of a part of a server whose cards share a fabric nothing is known of the way to another part; nor does the table's
    server, with all its network cards, stand for it.

    Args:
        gpu: The card.
        per_machine: Devices of one machine.
        links: What the question tells.
        tables: Servers.
    """
    if links.inter_node_gbit is not None:
        return True
    node = node_of(gpu, tables)
    part = has_fabric(gpu) and node is not None and per_machine < node.gpus_per_node
    return not part and network(links, per_machine, node) is not None


def group_link(gpu: Gpu, hardware: Hardware, ranks: int, tables: Tables) -> tuple[float | None, bool]:
    """The rate of a tensor-parallel group, and whether it spans machines.

    Where the question does not tell how many cards a machine has, those with a fabric sit in the table's server, others
    all in one. A ring between machines uses the network cards of all its ranks in one, up to the rate inside.

    Args:
        gpu: The card.
        hardware: Of the question: links, cards of a machine.
        ranks: Cards of the group.
        tables: With the servers.

    Returns:
        Bytes/s, None where they are not known, and whether it spans machines.
    """
    node, (peer, _) = node_of(gpu, tables), peer_link(gpu, hardware.links)
    usual = node.gpus_per_node if node is not None and has_fabric(gpu) else hardware.num_devices
    chassis = hardware.devices_per_node or usual
    local = fast_domain(gpu, chassis, node)
    if ranks <= local:
        return peer, False
    each = network(hardware.links, chassis, node)
    if each is None:
        return None, True
    return each if local == 1 else min(each * local, peer or float("inf")), True


def all_reduce_s(amount_bytes: float, ranks: int, rate: float) -> float:
    """Ring all-reduce: each rank sends 2 (n-1)/n of the buffer. Patarasuk and Yuan 2009."""
    return 2 * (ranks - 1) / ranks * amount_bytes / rate


def gather_s(amount_bytes: float, ranks: int, rate: float) -> float:
    """All-gather or reduce-scatter of `amount_bytes` in all: half an all-reduce."""
    return (ranks - 1) / ranks * amount_bytes / rate


def all_to_all_s(amount_bytes: float, ranks: int, rate: float) -> float:
    """Every rank keeps 1/n of its `amount_bytes` and sends the rest."""
    return (ranks - 1) / ranks * amount_bytes / rate


def transfer_s(amount_bytes: float, rate: float) -> float:
    """One copy over a link."""
    return amount_bytes / rate
