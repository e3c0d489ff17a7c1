"""Memory in tiers: a KV cache kept over several memories, and bytes that do not fit the card.

Each tier has a bandwidth from the hardware tables or from the user; without one its times are unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.hardware import Gpu
from planner.requests.errors import RequestsInputError, positive, share
from planner.scenario import CacheTier, Links
from planner.throughput.links import host_link, network, peer_link
from planner.units import gib_bytes

REFERENCE: Final = "kv_cache_tiers"


@dataclass(frozen=True, slots=True, kw_only=True)
class TierLoad:
    """What one tier of a KV cache does for a request.

    Attributes:
        where: `gpu`, `host` or `shared`.
        capacity_bytes: Its size.
        capacity_tokens: Tokens it keeps; None where a token takes no bytes.
        hit_frac: Share of requests whose beginning is found here.
        moved_bytes: Bytes brought to the card for a request, the mean over all requests; 0 for the card itself.
        load_s: Time of a hit's transfer; None where the link is not known, 0 for the card itself.
    """

    where: str
    capacity_bytes: int
    capacity_tokens: int | None
    hit_frac: float
    moved_bytes: float
    load_s: float | None


def link_bytes_per_s(where: str, gpu: Gpu, links: Links, cards_per_node: int) -> float | None:
    """One direction to a tier, per card: the host's link, or a card's part of the node's network.

    Args:
        where: `gpu`, `host` or `shared`.
        gpu: The card.
        links: What the question says of links.
        cards_per_node: Cards of a machine, which share its network.
    """
    if where == "host":
        return host_link(gpu, links)
    if where == "shared":
        return network(links, cards_per_node, None)
    return gpu.bandwidth_bytes_per_s


def cache_loads(
    tiers: Sequence[CacheTier],
    *,
    token_bytes: int,
    reused_tokens: int,
    gpu: Gpu,
    links: Links,
    cards_per_node: int = 1,
) -> tuple[TierLoad, ...]:
    """Bytes, hits and transfers of every tier.

    Args:
        tiers: Tiers with their sizes and hit rates; the rates are of all requests and add up to at most 1.
        token_bytes: Bytes of one token on one card.
        reused_tokens: Tokens that a hit finds.
        gpu: The card, for its own and its host link's bandwidth.
        links: The scenario's links.
        cards_per_node: Cards that share the node's network.

    Raises:
        RequestsInputError: The hit rates add up to more than 1, or tokens are negative.
    """
    total = sum(tier.hit_frac for tier in tiers)
    share("cache_tiers.hit_frac", round(total, 9))
    if reused_tokens < 0:
        raise RequestsInputError("workload.shared_prefix_tokens", reused_tokens, "positive")
    found = []
    for tier in tiers:
        size = gib_bytes(tier.gib)
        hit_bytes = token_bytes * reused_tokens
        link = link_bytes_per_s(tier.where, gpu, links, cards_per_node)
        away = tier.where != "gpu"
        found.append(
            TierLoad(
                where=tier.where,
                capacity_bytes=size,
                capacity_tokens=size // token_bytes if token_bytes else None,
                hit_frac=tier.hit_frac,
                moved_bytes=tier.hit_frac * hit_bytes if away else 0.0,
                load_s=(None if link is None else hit_bytes / link) if away else 0.0,
            )
        )
    return tuple(found)


def recomputed_frac(tiers: Sequence[CacheTier]) -> float:
    """Share of requests whose beginning no tier has."""
    return max(0.0, 1 - sum(tier.hit_frac for tier in tiers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A memory that bytes of a model can lie in.

    Attributes:
        name: `card`, `peer` (another card over its link) or `host`.
        capacity_bytes: Room; None = not known, taken as without end.
        bytes_per_s: How fast a step reads from it; None = not known.
    """

    name: str
    capacity_bytes: int | None
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What lies in one memory.

    Attributes:
        name: Which memory.
        held_bytes: Bytes in it.
        read_s: Time to read them once; None where the bandwidth is not known.
        lost_s: That, less what the card's own memory would take; None likewise.
    """

    name: str
    held_bytes: int
    read_s: float | None
    lost_s: float | None


def memories(
    gpu: Gpu, links: Links, *, peer_bytes: int | None = None, host_bytes: int | None = None
) -> tuple[Memory, ...]:
    """The card, another card where it gives room, and the host, nearest first.

    Args:
        gpu: The card.
        links: The scenario's links.
        peer_bytes: Room on another card; None = there is none to use.
        host_bytes: Room in host memory; None = not known.
    """
    found = [Memory(name="card", capacity_bytes=gpu.usable_bytes, bytes_per_s=gpu.bandwidth_bytes_per_s)]
    if peer_bytes:
        link, _ = peer_link(gpu, links)
        found.append(Memory(name="peer", capacity_bytes=peer_bytes, bytes_per_s=link))
    found.append(Memory(name="host", capacity_bytes=host_bytes, bytes_per_s=host_link(gpu, links)))
    return tuple(found)


def placed(need_bytes: int, read_bytes: int, where: Sequence[Memory]) -> tuple[Placed, ...]:
    """Fill memories in order; each step reads its share of `read_bytes` from each once.

    What a step reads lies as far out as the rest: the share of each memory is its share of the need. The link
    is taken at its full rate and nothing overlaps, so a time is the least that the transfer takes.
    Reference: memory_tiers.

    Args:
        need_bytes: Everything there is to hold.
        read_bytes: What one step reads of it: weights and the caches of its sequences.
        where: Memories, nearest first.

    Raises:
        RequestsInputError: More has to be read than there is, or the memories together are too small.
    """
    positive("need_bytes", need_bytes)
    if not 0 <= read_bytes <= need_bytes:
        raise RequestsInputError("read_bytes", read_bytes, "ordered")
    left, found = need_bytes, []
    own = where[0].bytes_per_s if where else None
    for memory in where:
        held = left if memory.capacity_bytes is None else min(left, memory.capacity_bytes)
        read = read_bytes * held / need_bytes
        time = None if memory.bytes_per_s is None else read / memory.bytes_per_s
        lost = None if time is None or own is None else max(0.0, time - read / own)
        found.append(Placed(name=memory.name, held_bytes=held, read_s=time, lost_s=lost))
        left -= held
    if left:
        raise RequestsInputError("hardware.host_memory_gib", left, "ordered")
    return tuple(found)
