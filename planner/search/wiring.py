"""Volumes that the collectives of a variant send, by kind of link, once for every card at once.

`Wires` answers in seconds on one card's links; with links of one byte a second those are volumes, and a group of ranks
that leaves the node is remembered by how many of them share a node's network cards.
"""

from dataclasses import dataclass, replace

from planner.hardware import Gpu, Tables
from planner.model.spec import ModelSpec
from planner.placement import Share, place
from planner.scenario import Device, Hardware, Links, Scenario
from planner.search.probes import REFERENCE_ID, placed, shards_of, thin_plan
from planner.search.space import Variant
from planner.throughput import links as ln
from planner.throughput.training_flops import passes_of
from planner.throughput.training_wires import Held, Wire, Wires
from planner.training.groups import total
from planner.training.ledgers import held_tensors
from planner.training.setup import Setup, setup_for


@dataclass(frozen=True, slots=True)
class Volume:
    """Bytes of one set of collectives.

    Attributes:
        inside: Within a node.
        outside: Between nodes, each rank over its own network card.
        rings: Between nodes, a ring over the network cards of all its ranks in a node.
        hops: Messages one after the other.
        local: Those ranks.
    """

    inside: float = 0.0
    outside: float = 0.0
    rings: float = 0.0
    hops: float = 0.0
    local: int = 1


NOTHING = Volume()


@dataclass(frozen=True, slots=True)
class CardLinks:
    """The links of one card in machines of some size.

    Attributes:
        domain: Cards that reach each other without the network.
        peer: Bytes per second between them; None if not known.
        kind: `fabric` or `pcie`.
        network: Bytes per second of a card's own share of the network; None if not known.
        host: Bytes per second to the host; None if not known.
    """

    domain: int
    peer: float | None
    kind: str
    network: float | None
    host: float | None


class _Volumes(Wires):
    """Wires that answer in bytes: the reference card has a fabric, so that what goes by PCIe stands for rings."""

    local = 1

    def group(self, ranks: int, stride: int) -> tuple[float, str]:
        """One byte a second; which kind of link, and how many ranks of a ring share a node."""
        local = max(1, self.per_node // stride)
        if ranks <= local:
            return 1.0, "fabric"
        self.local = local
        return 1.0, "pcie"


def card_links(gpu: Gpu, per_machine: int, links: Links, tables: Tables) -> CardLinks:
    """The links that the planner gives a card in machines of so many."""
    node = ln.node_of(gpu, tables)
    domain = ln.fast_domain(gpu, per_machine, node)
    peer, is_fabric = ln.peer_link(gpu, links)
    network = ln.network(links, per_machine, node)
    return CardLinks(domain, peer, "fabric" if is_fabric else "pcie", network, ln.host_link(gpu, links))


class Sender:
    """One variant's slowest stage, asked what it sends.

    Args:
        variant: What is run.
        model: The model.
        tables: With the reference card.
        layer_passes: Of its slowest stage.
    """

    def __init__(self, variant: Variant, model: ModelSpec, tables: Tables, layer_passes: float) -> None:
        self.variant, self.model, self.tables = variant, model, tables
        self.scenario = placed(
            variant.resolved, REFERENCE_ID, variant.copy * 2, data=2, micro_batch=1, accumulation=1
        )
        shares = place(self.scenario, model, tables)
        self.setup = setup_for(shares[0], self.scenario, model)
        self.share = _slowest(shares, self.setup, layer_passes)
        tensors, trained = held_tensors(self.share, model, self.setup)
        self.held = Held(total(tensors), total(trained), 0.0)

    def in_the_way(self, data: int, per_node: int) -> tuple[Volume, Volume]:
        """What layers wait for: a micro-batch of one sequence, and of two."""
        parallel = self.variant.resolved.parallel
        if self.variant.copy * parallel.expert == 1:
            return NOTHING, NOTHING
        one, two = (self._way(data, per_node, sequences) for sequences in (1, 2))
        return one, two

    def _way(self, data: int, per_node: int, sequences: int) -> Volume:
        setup = replace(
            self.setup,
            batch=sequences,
            tokens=self.setup.tokens * sequences,
            target_tokens=self.setup.target_tokens * sequences,
        )
        wires = self._wires(setup, data, per_node)
        return _volume(wires.in_the_way()[0], wires)

    def states(self, data: int, per_node: int) -> tuple[Volume, Volume]:
        """Gathering and reducing of a micro-batch, and once a step."""
        if data * self.variant.context == 1:
            return NOTHING, NOTHING
        wires = self._wires(self.setup, data, per_node)
        each, once = wires.states()
        return _volume(each, wires), _volume(once, wires)

    def _wires(self, setup: Setup, data: int, per_node: int) -> _Volumes:
        share = replace(self.share, data=data, shard=shards_of(self.variant, data))
        plan = thin_plan(_on(self.scenario, self.variant.copy * data, per_node), self.model)
        return _Volumes(share, setup, plan, self.held, self.tables)


def _on(scenario: Scenario, devices: int, per_node: int) -> Scenario:
    hardware = Hardware.model_construct(
        devices=(Device.model_construct(gpu=REFERENCE_ID, count=devices),), devices_per_node=per_node
    )
    return scenario.model_copy(update={"hardware": hardware})


def _volume(wire: Wire, wires: _Volumes) -> Volume:
    return Volume(wire.fabric, wire.network, wire.pcie, wire.hops, wires.local)


def _slowest(shares: tuple[Share, ...], setup: Setup, layer_passes: float) -> Share:
    """The stage that takes longest, by its layers: of equal ones the last, which has the head as well."""
    last = shares[-1]
    layers = len(last.layers) + len(last.encoder_layers)
    return last if round(layer_passes / passes_of(setup).visits) == layers else shares[0]
