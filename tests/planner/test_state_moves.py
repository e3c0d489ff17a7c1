"""Loading, saving, what lies on the host (SEEDS B8, B17, D9, G20)."""

from typing import Any

import pytest

from hardware_db import load_tables
from planner.claims.training import full_training
from planner.claims.types import planned
from planner.plan_types import Plan
from planner.state_moves import interval, loading, saving
from planner.units import GB

TABLES = load_tables()
PARAMS = 6_738_415_616
"""Llama-2-7B."""


def job(**blocks: Any) -> Plan:
    return planned({**full_training(cards=8), "runtime": {"name": "deepspeed"}, **blocks}, TABLES)


ZERO3 = {"sharding": "zero3"}


def test_offloaded_adam_states_of_one_machine() -> None:
    plan = job(parallel={**ZERO3, "offload": {"optimizer": "cpu"}})
    states, gradients = PARAMS * 8, PARAMS * 2
    assert plan.host.memory_bytes == pytest.approx(states + gradients, rel=1e-3)
    assert plan.host.nvme_bytes == 0


def test_two_machines_of_four_cards_need_half_each() -> None:
    blocks = full_training(cards=8)
    blocks["hardware"]["devices_per_node"] = 4
    plan = job(hardware=blocks["hardware"], parallel={**ZERO3, "offload": {"optimizer": "nvme"}})
    assert plan.host.nvme_bytes == pytest.approx(PARAMS * 4, rel=1e-3)


def test_nothing_offloaded_needs_nothing() -> None:
    assert job(parallel=ZERO3).host.memory_bytes == 0


def test_a_small_host_is_named_with_what_is_needed() -> None:
    hardware = {**full_training(cards=8)["hardware"], "host_memory_gib": 32.0, "nvme_gb": 1000.0}
    plan = job(hardware=hardware, parallel={**ZERO3, "offload": {"optimizer": "cpu"}})
    issue = next(issue for issue in plan.issues if issue.code == "host_memory_short")
    assert issue.field == "hardware.host_memory_gib"
    assert dict(issue.params) == {"given": 32.0, "needs": "62.8"}


@pytest.mark.parametrize(
    ("method", "host"),
    [
        ("full", 2 * PARAMS * 2),
        ("meta", 5 * GB),
        ("sharded", PARAMS * 2 / 8),
        ("device_map", 32000 * 4096 * 2),
    ],
)
def test_host_memory_of_one_process_while_loading(method: str, host: float) -> None:
    found = loading(job(parallel=ZERO3, loading={"method": method}), TABLES)
    assert found.host_bytes_per_process == pytest.approx(host, rel=1e-3)
    assert found.checkpoint_bytes == PARAMS * 2


def test_a_checkpoint_holds_weights_and_states_and_is_the_same_when_offloaded() -> None:
    plain, moved = (
        saving(job(parallel={**ZERO3, **more}), TABLES) for more in ({}, {"offload": {"optimizer": "cpu"}})
    )
    assert plain is not None
    assert plain == moved
    assert plain.disk_bytes == pytest.approx(PARAMS * (2 + 8), rel=1e-3)
    assert plain.divided_host_bytes == pytest.approx(plain.gathered_host_bytes / 8, rel=1e-3)


def test_the_rank_with_the_largest_part_is_shown() -> None:
    """Four stages of 8 layers; the last also holds the head, as large as the first one's embedding."""
    plan = job(hardware={"devices": [{"gpu": "a100-sxm-80gb", "count": 4}]}, parallel={"pipeline": 4})
    found = saving(plan, TABLES)
    assert found is not None
    table, layers = 32000 * 4096, (PARAMS - 2 * 32000 * 4096) / 4
    largest = (table + layers) / PARAMS
    assert found.divided_host_bytes == pytest.approx(found.disk_bytes * largest, rel=1e-3)
    read = loading(plan, TABLES, "sharded")
    assert read.host_bytes_per_process == pytest.approx(PARAMS * 2 * largest, rel=1e-3)


def test_a_served_models_rank_reads_what_it_holds() -> None:
    served = {"version": 1, "task": "serve", "model": {"id": "meta-llama/Llama-2-7b-hf"}}
    cards = {"hardware": {"devices": [{"gpu": "a100-sxm-80gb", "count": 2}]}, "parallel": {"tensor": 2}}
    plan = planned({**served, **cards, "runtime": {"name": "vllm"}}, TABLES)
    assert loading(plan, TABLES, "sharded").host_bytes_per_process == pytest.approx(PARAMS, rel=0.01)


def test_paged_states_lie_on_the_host_in_their_own_format() -> None:
    training = {**full_training()["training"], "optimizer": {"name": "adamw_8bit", "paged": True}}
    plan = planned({**full_training(), "training": training}, TABLES)
    assert plan.host.memory_bytes == pytest.approx(2 * PARAMS, rel=0.05)
    found = saving(plan, TABLES)
    assert found is not None
    assert found.disk_bytes == pytest.approx(4 * PARAMS, rel=0.05)


def test_an_adapters_checkpoint_leaves_the_base_out() -> None:
    plan = planned(
        {
            **full_training(),
            "task": "lora",
            "adapter": {"method": "lora", "rank": 16, "targets": "all_linear", "dtype": "fp32"},
        },
        TABLES,
    )
    found = saving(plan, TABLES)
    assert found is not None
    assert found.disk_bytes == plan.trainable_params * 12


def test_youngs_interval_by_hand() -> None:
    """30 s to save, 100 h between failures: sqrt(2 x 30 x 360,000) s, and 1.3 % lost."""
    found = interval(60 * GB, 2 * GB, 100)
    assert found.save_s == 30
    assert found.seconds == pytest.approx(4647.58, rel=1e-5)
    assert found.lost_frac == pytest.approx(30 / 4647.58 + 4647.58 / 720_000, rel=1e-5)


@pytest.mark.parametrize(("rate", "hours"), [(0, 1), (1, 0), (-1, 5)])
def test_rates_are_positive(rate: float, hours: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        interval(1, rate, hours)
