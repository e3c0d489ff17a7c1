"""Rates of links and times of collectives."""

from dataclasses import replace

import pytest

from planner.scenario import Device, Hardware, Links
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


@pytest.mark.parametrize(
    ("gpu_id", "machine", "domain"),
    [
        ("h100-sxm-80gb", 8, 8),
        ("h100-sxm-80gb", 1, 1),
        ("h100-sxm-80gb", 4, 4),
        ("gb200-nvl72-186gb", 4, 72),
        ("gb200-nvl72-186gb", 1, 1),
        ("l40s-48gb", 8, 8),
        ("l40s-48gb", 1, 1),
    ],
)
def test_only_whole_trays_of_a_rack_share_its_fabric(gpu_id: str, machine: int, domain: int) -> None:
    gpu = TABLES.gpus[gpu_id]
    assert ln.fast_domain(gpu, machine, ln.node_of(gpu, TABLES)) == domain


def test_a_machine_that_the_table_of_servers_names_has_its_own_network() -> None:
    gpu = TABLES.gpus["a100-sxm-40gb"]
    assert ln.offered_gbit("AWS", "p4d.24xlarge", gpu, TABLES) == pytest.approx(400)
    assert ln.offered_gbit("AWS", "p4d.24xlarge", TABLES.gpus["a100-sxm-80gb"], TABLES) is None
    assert ln.offered_gbit("Lambda", "gpu_8x_a100", gpu, TABLES) is None


def test_parts_of_a_server_are_joined_by_what_the_question_tells_alone() -> None:
    gpu = TABLES.gpus["h100-sxm-80gb"]
    assert ln.joins(gpu, 8, Links(), TABLES)
    assert not ln.joins(gpu, 1, Links(), TABLES)
    assert ln.joins(gpu, 1, Links(inter_node_gbit=100), TABLES)


def test_a_group_that_spans_machines_goes_at_their_network() -> None:
    gpu, peer = TABLES.gpus["h100-sxm-80gb"], TABLES.gpus["h100-sxm-80gb"].interconnect_bytes_per_s
    assert peer is not None

    def hardware(count: int, per_node: int | None = None, gbit: float | None = None) -> Hardware:
        return Hardware(
            devices=(Device(gpu=gpu.id, count=count),),
            devices_per_node=per_node,
            links=Links(inter_node_gbit=gbit),
        )

    assert ln.group_link(gpu, hardware(8), 8, TABLES) == (peer, False)
    rate, spans = ln.group_link(gpu, hardware(16, gbit=800), 16, TABLES)
    assert spans
    assert rate == pytest.approx(100 * GB)
    assert ln.group_link(gpu, hardware(8, per_node=1, gbit=100), 8, TABLES) == (12.5 * GB, True)
    own = TABLES.gpus["rtx-3090-24gb"]
    assert ln.group_link(own, hardware(8), 8, TABLES) == (own.pcie_bytes_per_s, False)
    bare = replace(gpu, arch=None, id="nowhere")
    assert ln.group_link(bare, hardware(8, per_node=4), 8, TABLES) == (None, True)
