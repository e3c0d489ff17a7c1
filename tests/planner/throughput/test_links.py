"""Rates of links and times of collectives."""

import pytest

from planner.scenario import Links
from planner.throughput import links as ln
from planner.units import GB
from tests.planner.throughput.cases import TABLES


def test_pcie_rates_are_one_direction() -> None:
    assert ln.named_link("pcie4_x16") == 32 * GB
    assert ln.named_link("pcie5_x16") == 64 * GB
    assert ln.named_link("pcie4_x8") == 16 * GB
    assert ln.named_link("carrier_pigeon") is None


def test_the_table_agrees_with_the_generations() -> None:
    for card, generation in (("a100-sxm-80gb", 4), ("h100-sxm-80gb", 5)):
        assert TABLES.gpus[card].pcie_bytes_per_s == ln.PCIE_BYTES_PER_S[generation]
    for card, generation in (
        ("v100-sxm-32gb", 2),
        ("a100-sxm-80gb", 3),
        ("h100-sxm-80gb", 4),
        ("b200-sxm-180gb", 5),
    ):
        assert TABLES.gpus[card].interconnect_bytes_per_s == ln.NVLINK_BYTES_PER_S[generation]


def test_an_all_reduce_sends_nearly_twice_the_buffer() -> None:
    assert ln.all_reduce_s(8 * GB, 8, 100 * GB) == pytest.approx(2 * 7 / 8 * 8 / 100)
    assert ln.gather_s(8 * GB, 8, 100 * GB) == pytest.approx(7 / 8 * 8 / 100)


def test_a_bridge_is_not_taken_for_granted() -> None:
    gpu = TABLES.gpus["rtx-3090-24gb"]
    assert ln.peer_link(gpu, Links()) == (gpu.pcie_bytes_per_s, False)
    assert ln.peer_link(gpu, Links(intra_node="nvlink3"))[1] is True


def test_a_named_network_is_divided_over_the_cards() -> None:
    assert ln.network(Links(inter_node_gbit=800), 8, None) == pytest.approx(100 * GB / 8)
    node = ln.node_of(TABLES.gpus["h100-sxm-80gb"], TABLES)
    assert node is not None
    assert ln.network(Links(), 8, node) == node.nic_bytes_per_s
    assert ln.network(Links(), 8, None) is None
