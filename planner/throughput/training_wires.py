"""Which links a card of a training job has, and the ideal time of every collective over them."""

from dataclasses import dataclass
from typing import Final

from planner.hardware import Tables
from planner.model.distinct import distinct
from planner.placement import Share
from planner.plan_types import Plan
from planner.throughput import links as ln
from planner.throughput.training_flops import passes_of
from planner.throughput.types import Unknown
from planner.training.setup import Setup

BUCKET_BYTES: Final = 500_000_000
"""Bytes of a gradient bucket (DeepSpeed `reduce_bucket_size`, elements; DDP's are smaller and overlap better)."""


@dataclass(slots=True)
class Wire:
    """Ideal seconds by kind of link, and messages that wait for one another."""

    fabric: float = 0.0
    pcie: float = 0.0
    network: float = 0.0
    hops: float = 0.0

    def add(self, seconds: float, kind: str, hops: float) -> None:
        """Adds to one kind."""
        setattr(self, kind, getattr(self, kind) + seconds)
        self.hops += hops

    @property
    def total(self) -> float:
        """Every kind together."""
        return self.fabric + self.pcie + self.network


@dataclass(frozen=True, slots=True)
class Held:
    """Parameters of one card before sharding over data ranks.

    Attributes:
        params: All.
        trained: Those that get gradients.
        stepped: Those the card's optimizer steps, after sharding.
    """

    params: int
    trained: int
    stepped: float


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares, 0 to 1, of the transfers in the way of the layers; what is left is context parallelism."""

    tensor: float
    expert: float
    pipeline: float


class Wires:
    """Which links a card has, and the ideal time of every collective over them."""

    def __init__(self, share: Share, setup: Setup, plan: Plan, held: Held, tables: Tables) -> None:
        self.share, self.setup, self.model, self.held = share, setup, plan.model, held
        hardware = plan.resolved.hardware
        node = ln.node_of(share.gpu, tables) if hardware.num_devices > 1 else None
        chassis = hardware.devices_per_node or (node.gpus_per_node if node else hardware.num_devices)
        self.per_node = min(ln.fast_domain(share.gpu, chassis, node), hardware.num_devices)
        self.peer, is_fabric = ln.peer_link(share.gpu, hardware.links)
        self.kind = "fabric" if is_fabric else "pcie"
        self.net = ln.network(hardware.links, chassis, node)
        self.host = ln.host_link(share.gpu, hardware.links)
        self.disk_gb_per_s = hardware.links.nvme_gb_per_s
        self.spans_nodes = hardware.num_devices > self.per_node
        self.cards = hardware.num_devices
        self.missing = self._missing()

    def _missing(self) -> tuple[Unknown, ...]:
        gpu, offload = self.share.gpu.id, self.setup.parallel.offload
        found = []
        if self.cards > 1 and self.peer is None and self.per_node > 1:
            found.append(Unknown(code="no_peer_link", gpu_id=gpu))
        if self.spans_nodes and self.net is None:
            found.append(Unknown(code="no_network_rate", gpu_id=gpu))
        moves = {offload.parameters, offload.optimizer, offload.gradients} - {"none"}
        if (moves or self.setup.training.activation_offload) and self.host is None:
            found.append(Unknown(code="no_host_link", gpu_id=gpu))
        if "nvme" in moves and self.disk_gb_per_s is None:
            found.append(Unknown(code="no_disk_rate", gpu_id=gpu))
        return tuple(found)

    def group(self, ranks: int, stride: int) -> tuple[float, str]:
        """Rate and kind of link for a group of ranks that lie `stride` apart.

        A ring that crosses nodes uses the network cards of all its ranks in a node, up to the fabric's rate.
        """
        local = max(1, self.per_node // stride)
        if ranks <= local:
            return self.peer or 1.0, self.kind
        return min(
            (self.net or 1.0) * local, self.peer or float("inf") if local > 1 else float("inf")
        ), "network"

    def in_the_way(self) -> tuple[Wire, Shares]:
        """Transfers that the next layer waits for, of one micro-batch, and whose they are."""
        wire = Wire()
        tensor, expert = self._tensor(wire), self._expert(wire)
        self._context(wire)
        pipeline = self._pipeline(wire)
        whole = wire.total or 1.0
        return wire, Shares(tensor / whole, expert / whole, pipeline / whole)

    def _tensor(self, wire: Wire) -> float:
        t = self.share.tensor
        if t == 1:
            return 0.0
        rate, kind = self.group(t, 1)
        layers = len(self.share.layers) + len(self.share.encoder_layers)
        visits = 2 * passes_of(self.setup).visits
        amount = self.setup.tokens * self.model.hidden_size * self.setup.compute_bytes
        seconds = layers * visits * ln.all_reduce_s(amount, t, rate)
        wire.add(seconds, kind, layers * visits * 2 * (t - 1))
        return seconds

    def _expert(self, wire: Wire) -> float:
        ranks, seconds, hops = self.setup.parallel.expert, 0.0, 0.0
        if ranks == 1:
            return 0.0
        width = self.setup.division.expert_tensor
        stride = width if ranks * width <= self.share.tensor * self.share.data * self.share.context else 1
        local = max(1, self.per_node // stride)
        nodes = max(1.0, ranks / local)
        rate, kind = (self.peer or 1.0, self.kind) if nodes == 1 else (self.net or 1.0, "network")
        for layer, count in distinct(self.share.layers):
            copies = min(layer.mlp.experts_per_token, nodes) if nodes > 1 else layer.mlp.experts_per_token
            amount = self.setup.tokens / self.share.tensor * self.model.hidden_size * self.setup.compute_bytes
            trips = count * 2 * passes_of(self.setup).visits * (copies > 0)
            seconds += trips * ln.all_to_all_s(amount * copies, round(nodes) if nodes > 1 else ranks, rate)
            hops += trips
        wire.add(seconds, kind, hops)
        return seconds

    def _context(self, wire: Wire) -> None:
        ranks = self.share.context
        if ranks == 1:
            return
        rate, kind = self.group(ranks, self.share.tensor)
        for layer, count in distinct(self.share.layers):
            shape = layer.attention
            amount = self.setup.tokens * (shape.k_width + shape.v_width) * self.setup.compute_bytes * ranks
            trips = count * passes_of(self.setup).visits
            seconds = trips * ln.gather_s(amount / self.share.tensor, ranks, rate)
            wire.add(seconds, kind, trips * (ranks - 1))

    def _pipeline(self, wire: Wire) -> float:
        """Activations to the next stage and their gradients back, each rank its part of the width.

        Narayanan et al. 2021 (arXiv 2104.04473), section 4.1; interleaved stages hide them.
        """
        stages = self.setup.parallel.pipeline
        if stages == 1 or (self.setup.parallel.virtual_stages or 1) > 1:
            return 0.0
        near = self.cards // stages < self.per_node
        rate, kind = (self.peer or 1.0, self.kind) if near else (self.net or 1.0, "network")
        amount = self.setup.tokens * self.model.hidden_size * self.setup.compute_bytes / self.share.tensor
        seconds = 2 * ln.transfer_s(amount, rate)
        wire.add(seconds, kind, 2)
        return seconds

    def states(self) -> tuple[Wire, Wire]:
        """Gathering weights and reducing gradients: of one micro-batch, and once a step."""
        each, once = Wire(), Wire()
        share, setup, parallel = self.share, self.setup, self.setup.parallel
        ranks = share.data * share.context
        if ranks == 1:
            return each, once
        base = self.held.params * setup.compute_bytes
        gradients = self.held.trained * setup.gradient_bytes
        shard = min(share.shard, ranks)
        inner, kind = self.group(shard, share.tensor)
        if parallel.sharding in ("fsdp", "zero3"):
            gathers = 1 if parallel.reshard_after_forward is False else 2
            units = (len(share.layers) + 1) * (gathers + 1)
            each.add(ln.gather_s(gathers * base + gradients, shard, inner), kind, units * (shard - 1))
            copies = ranks // shard
            if copies > 1:
                outer, outer_kind = self.group(copies, share.tensor * shard)
                seconds = ln.all_reduce_s(gradients / shard, copies, outer)
                once.add(seconds, outer_kind, len(share.layers) * 2 * (copies - 1))
            return each, once
        rate, kind = self.group(ranks, share.tensor)
        target = each if parallel.sharding == "zero2" and setup.runtime == "deepspeed" else once
        target.add(ln.gather_s(gradients, ranks, rate), kind, _buckets(gradients) * (ranks - 1))
        back = self.held.trained * setup.compute_bytes if parallel.sharding != "none" else gradients
        once.add(ln.gather_s(back, ranks, rate), kind, _buckets(back) * (ranks - 1))
        return each, once


def _buckets(amount_bytes: float) -> float:
    """Collectives that carry an amount; DDP and ZeRO send buckets."""
    return amount_bytes / BUCKET_BYTES + 1
