"""The network that a training job over several nodes needs, beside the one its nodes have."""

from dataclasses import dataclass

from planner.hardware import Gpu, Tables
from planner.plan_types import Plan
from planner.throughput import links as ln
from planner.throughput.training_speed import TrainingSpeed


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkNeed:
    """Rates of a whole node, one direction.

    Attributes:
        needed_bytes_per_s: At which everything sent between nodes would hide behind the computing.
        own_bytes_per_s: What the node has; None where the tables don't tell.
        waits_frac: Share of the step that waits for other cards, whatever the link.
        cards_per_node: Cards that share the node's network.
    """

    needed_bytes_per_s: float
    own_bytes_per_s: float | None
    waits_frac: float
    cards_per_node: int

    @property
    def is_enough(self) -> bool | None:
        """Whether the node's own network carries it; None where that is not known."""
        return None if self.own_bytes_per_s is None else self.own_bytes_per_s >= self.needed_bytes_per_s


def network_need(plan: Plan, speed: TrainingSpeed, tables: Tables) -> NetworkNeed | None:
    """What the links between nodes must carry.

    Args:
        plan: A plan of a training job.
        speed: Its speed.
        tables: Cards and servers.

    Returns:
        None where nothing is sent between nodes, or where no speed is known.
    """
    if not speed.network_bytes or speed.network_bytes_per_s is None:
        return None
    hardware = plan.resolved.hardware
    gpu_id = hardware.devices[0].gpu
    gpu = tables.gpus.get(gpu_id) or Gpu(id=gpu_id, name=gpu_id)
    node = ln.node_of(gpu, tables)
    per_node = hardware.devices_per_node or (node.gpus_per_node if node else hardware.num_devices)
    own = ln.network(hardware.links, per_node, node)
    return NetworkNeed(
        needed_bytes_per_s=speed.network_bytes_per_s * per_node,
        own_bytes_per_s=None if own is None else own * per_node,
        waits_frac=speed.communication_frac or 0.0,
        cards_per_node=per_node,
    )
