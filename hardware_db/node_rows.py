"""The table of servers."""

from collections.abc import Mapping
from pathlib import Path

from hardware_db.cells import Row, read_rows
from planner.hardware import Gpu, Node
from planner.units import GB

NODE_COLUMNS = (
    "id",
    "name",
    "gpu",
    "gpu_id",
    "gpus_per_node",
    "scale_up_domain_gpus",
    "intra_node_fabric",
    "intra_gbps_per_gpu_bidir",
    "intra_gbps_per_gpu_per_dir",
    "nic",
    "nic_gbit_per_gpu",
    "nic_gbit_per_node",
    "node_power_kw_max",
    "node_mem_gb",
    "price_usd",
    "price_date",
    "price_source",
    "spec_source",
    "notes",
)

_BITS = 8
_MAX_PRICE_USD = 10_000_000


def read_nodes(path: Path, gpus: Mapping[str, Gpu]) -> tuple[Node, ...]:
    """Every server, in file order.

    Raises:
        DataError: A cell is not allowed, an id stands twice, or a card is not in the table of cards.
    """
    nodes: dict[str, Node] = {}
    for row in read_rows(path, NODE_COLUMNS):
        node = _node(row)
        if node.gpu_id not in gpus:
            raise row.error("gpu_id", "an id of gpus.csv")
        if node.id in nodes:
            raise row.error("id", "an id that stands once")
        nodes[node.id] = node
    return tuple(nodes.values())


def _node(row: Row) -> Node:
    power_kw = row.optional_number("node_power_kw_max", 0.05, 500)
    both_ways = row.optional_number("intra_gbps_per_gpu_bidir", 1, 10_000)
    one_way = row.number("intra_gbps_per_gpu_per_dir", 1, 5_000)
    if both_ways is not None and abs(both_ways / 2 - one_way) > 1:
        raise row.error("intra_gbps_per_gpu_per_dir", "half of intra_gbps_per_gpu_bidir")
    return Node(
        id=row.text("id"),
        name=row.text("name"),
        gpu_id=row.text("gpu_id"),
        gpus_per_node=row.integer("gpus_per_node", 1, 128),
        scale_up_gpus=row.integer("scale_up_domain_gpus", 1, 1_000),
        fabric=row.text("intra_node_fabric"),
        fabric_bytes_per_s=one_way * GB,
        nic=row.text("nic"),
        nic_bytes_per_s=row.number("nic_gbit_per_gpu", 0.1, 3_200) * GB / _BITS,
        nic_bytes_per_s_per_node=row.number("nic_gbit_per_node", 1, 100_000) * GB / _BITS,
        power_w=None if power_kw is None else power_kw * 1000,
        memory_nominal_gb=row.number("node_mem_gb", 1, 100_000),
        price=row.price("price", _MAX_PRICE_USD),
        source=row.text("spec_source"),
        recalled="recalled" in row.text("spec_source"),
        notes=row.optional_text("notes"),
    )
