"""What the shipped data must satisfy beyond what the loaders enforce."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import hardware_db
from planner.hardware import Gpu, Node, gpu_for, has_gpu
from planner.units import GB, MIB, mib_bytes
from tests.hardware_db.broken import raw_rows

TABLES = hardware_db.load_tables()
GPUS = tuple(TABLES.gpus.values())
TRUTH = Path(__file__).parents[1] / "data" / "truth"
RUNS = ("training.jsonl", "training_fits.jsonl", "serving.jsonl", "serving_fits.jsonl", "speed.jsonl")

# Bytes per second and lane, one direction, as vendors round them: 16 lanes of PCIe 3.0 are "16 GB/s".
PCIE_LANE_GBPS = {"3.0": 1, "4.0": 2, "5.0": 4, "6.0": 8}


def by_id(gpu: Gpu) -> str:
    return gpu.id


def truth_devices() -> Iterator[tuple[str, int | None]]:
    for name in RUNS:
        for line in (TRUTH / name).read_text(encoding="utf-8").splitlines():
            for device in json.loads(line)["scenario"]["hardware"]["devices"]:
                yield device["gpu"], device.get("memory_bytes")


def test_every_row_of_every_file_is_read_and_counted() -> None:
    counts = hardware_db.check_all()
    lines = {
        "gpus": len(raw_rows("gpus.csv")),
        "nodes": len(raw_rows("nodes.csv")),
        "offers": len(raw_rows("cloud.csv")),
        "bands": len(raw_rows("bands.csv")),
    }
    assert {name: counts[name] for name in lines} == lines
    assert (counts["gpus"], counts["nodes"], counts["offers"]) == (123, 25, 501)
    assert (counts["models"], counts["pipelines"]) == (257, 17)


@pytest.mark.parametrize("gpu", GPUS, ids=by_id)
def test_a_card_has_what_a_memory_plan_needs(gpu: Gpu) -> None:
    assert gpu.usable_bytes is not None
    assert gpu.memory_nominal_bytes is not None
    assert 0 < gpu.usable_bytes <= gpu.memory_nominal_bytes
    share = gpu.usable_bytes / gpu.memory_nominal_bytes
    assert share > (0.6 if gpu.unified_memory else 0.88)
    assert gpu.sources
    assert gpu.usable_source in {"read", "rule"}


@pytest.mark.parametrize("gpu", GPUS, ids=by_id)
def test_a_card_has_what_a_speed_estimate_needs(gpu: Gpu) -> None:
    assert gpu.bandwidth_bytes_per_s is not None
    assert 10 * GB <= gpu.bandwidth_bytes_per_s <= 10_000 * GB
    rates = [rate for rate in (gpu.flops.fp32, gpu.flops.fp16, gpu.flops.bf16) if rate is not None]
    assert rates
    # A P40 does fp16 at a 64th of its fp32 rate.
    assert all(1e11 <= rate <= 1e16 for rate in rates)


@pytest.mark.parametrize("gpu", GPUS, ids=by_id)
def test_narrower_types_are_not_slower(gpu: Gpu) -> None:
    wide_to_narrow = (gpu.flops.bf16 or gpu.flops.fp16, gpu.flops.fp8, gpu.flops.fp4)
    rates = [rate for rate in wide_to_narrow if rate is not None]
    assert all(narrow >= wide * 0.99 for wide, narrow in pairwise(rates))


@pytest.mark.parametrize("gpu", GPUS, ids=by_id)
def test_pcie_rate_follows_from_generation_and_lanes(gpu: Gpu) -> None:
    assert (gpu.pcie is None) == (gpu.pcie_bytes_per_s is None)
    if gpu.pcie is not None:
        match = re.fullmatch(r"PCIe (\d\.0) x(\d+)", gpu.pcie)
        assert match is not None
        assert gpu.pcie_bytes_per_s == PCIE_LANE_GBPS[match[1]] * int(match[2]) * GB


def test_memory_readings_are_ordered() -> None:
    for row in raw_rows("gpus.csv"):
        nominal_mib = TABLES.gpus[row["id"]].memory_nominal_bytes
        assert nominal_mib is not None
        readings = [float(row[c]) for c in ("memory_cuda_mib", "memory_smi_mib") if row[c]]
        ordered = [*readings, nominal_mib / MIB]
        assert ordered == sorted(ordered), row["id"]


def test_a_card_that_shows_as_two_devices_has_the_figures_of_one() -> None:
    card, die = TABLES.gpus["mi250x-128gb"], TABLES.gpus["mi250x-gcd-64gb"]
    assert card.devices_per_card == 2
    assert card.memory_nominal_bytes == die.memory_nominal_bytes
    assert card.usable_bytes == mib_bytes(65520)
    assert card.bandwidth_bytes_per_s == pytest.approx(die.bandwidth_bytes_per_s, rel=0.01)
    assert card.flops.fp16 == pytest.approx(die.flops.fp16, rel=0.01)
    assert card.tdp_w == die.tdp_w


def test_known_figures_come_out_in_their_units() -> None:
    """H100 SXM as NVIDIA's data sheet has it; 81089 MiB as torch reports it."""
    h100 = TABLES.gpus["h100-sxm-80gb"]
    assert h100.usable_bytes == 81089 * MIB
    assert h100.bandwidth_bytes_per_s == pytest.approx(3.35e12, rel=0.001)
    assert h100.flops.of("bf16") == pytest.approx(989.4e12)
    assert h100.flops.of("fp8") == pytest.approx(1978.9e12)
    assert h100.flops.of("int3") is None
    assert h100.interconnect_bytes_per_s == pytest.approx(450e9)
    assert h100.pcie_bytes_per_s == pytest.approx(64e9)
    assert h100.compute_capability == (9, 0)
    assert TABLES.gpus["mi300x-192gb"].compute_capability is None


def test_every_card_of_the_published_measurements_is_known() -> None:
    ids = {gpu_id for gpu_id, _ in truth_devices()}
    assert len(ids) > 40
    assert {gpu_id for gpu_id in ids if not has_gpu(gpu_id, TABLES)} == set()


def test_usable_bytes_agree_with_what_runs_report() -> None:
    """Cards that a published run names together with the memory it saw; no rule was fitted on these."""
    told = {(g, m) for g, m in truth_devices() if m is not None and not g.startswith("generic")}
    assert len(told) >= 10
    for gpu_id, seen_bytes in told:
        usable = gpu_for(gpu_id, TABLES).usable_bytes
        assert usable == pytest.approx(seen_bytes, rel=0.05), gpu_id


def node_id(node: Node) -> str:
    return node.id


@pytest.mark.parametrize("node", tuple(TABLES.nodes), ids=node_id)
def test_a_node_agrees_with_its_card(node: Node) -> None:
    gpu = TABLES.gpus[node.gpu_id]
    assert gpu.memory_nominal_gb is not None
    devices = max(node.gpus_per_node, node.scale_up_gpus if "nvl72" in node.id else 0)
    assert node.memory_nominal_gb == pytest.approx(devices * gpu.memory_nominal_gb)
    assert node.nic_bytes_per_s_per_node == pytest.approx(node.nic_bytes_per_s * node.gpus_per_node, rel=0.05)
    link = gpu.interconnect_bytes_per_s or gpu.pcie_bytes_per_s
    assert link is not None
    assert 0.75 <= node.fabric_bytes_per_s / link <= 1.01


def test_offers_name_known_cards_and_keep_kinds_apart() -> None:
    offers = hardware_db.offers()
    assert sum(1 for offer in offers if offer.gpu_id is not None) == 443
    assert all(offer.gpu_id is None or offer.gpu_id in TABLES.gpus for offer in offers)
    assert {offer.price_kind for offer in offers} == {"on_demand", "marketplace", "index"}
    spot_only = [offer for offer in offers if offer.usd_per_hour is None]
    assert len(spot_only) == 5
    assert all(offer.spot_usd_per_hour is not None for offer in spot_only)
    shares = [offer for offer in offers if offer.gpu_frac is not None]
    assert shares
    assert all(offer.gpu_count is not None and offer.gpu_count < 1 for offer in shares)


def test_purchase_prices_carry_date_and_source() -> None:
    prices = hardware_db.purchase_prices()
    by_card = {(price.gpu_id, price.kind): price.price for price in prices}
    assert len(by_card) == len(prices)
    columns = ("list_price_usd", "street_price_usd")
    assert len(prices) == sum(1 for row in raw_rows("gpus.csv") for column in columns if row[column])
    assert all(price.price.source and price.price.date for price in prices)
    raw = next(row for row in raw_rows("gpus.csv") if row["id"] == "a100-sxm-80gb")
    listed = by_card["a100-sxm-80gb", "list"]
    assert (listed.usd, listed.date) == (float(raw["list_price_usd"]), raw["list_price_date"])


def test_recalled_rows_keep_their_mark() -> None:
    spec_marks = {"specs", "memory", "flops", "interconnect"}
    for row in raw_rows("gpus.csv"):
        gpu = TABLES.gpus[row["id"]]
        assert ("recalled" in row["spec_source"]) == bool(spec_marks & set(gpu.recalled)), gpu.id
        assert ("memory_cuda" in gpu.recalled) == (row["memory_cuda_kind"] == "recalled"), gpu.id
        for price, column in ((gpu.list_price, "list_price"), (gpu.street_price, "street_price")):
            assert (price is not None and price.recalled) == ("recalled" in row[f"{column}_source"]), gpu.id
            assert (column in gpu.recalled) == (price is not None and price.recalled), gpu.id
    assert sum(1 for gpu in GPUS if "specs" in gpu.recalled) == 58
    assert TABLES.gpus["rtx-4080-16gb"].usable_recalled
    assert TABLES.gpus["v100-sxm-32gb"].usable_recalled
    assert not TABLES.gpus["h100-sxm-80gb"].usable_recalled
    assert sum(1 for node in TABLES.nodes if node.recalled) == 21
