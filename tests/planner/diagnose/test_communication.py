"""Signs that cards wait for each other, predicted, measured, and from NCCL's lines."""

from __future__ import annotations

from typing import Any

import pytest

from hardware_db import load_tables
from planner.claims.training import full_training
from planner.claims.types import planned
from planner.diagnose.communication import Measured, Sign, signs
from planner.diagnose.links import Links
from planner.plan_types import Plan

TABLES = load_tables()


def job(gbit: float | None = None, **parallel: Any) -> Plan:
    asked = full_training(cards=16, gpu="h100-sxm-80gb", checkpointing="full", gradient_accumulation=8)
    hardware = {**asked["hardware"], "devices_per_node": 8}
    if gbit is not None:
        hardware["links"] = {"inter_node_gbit": gbit}
    return planned(
        {**asked, "hardware": hardware, "runtime": {"name": "megatron_lm"}, "parallel": parallel}, TABLES
    )


def zero3(gbit: float) -> Plan:
    asked = full_training(cards=16, gpu="h100-sxm-80gb", checkpointing="full")
    hardware = {**asked["hardware"], "devices_per_node": 8, "links": {"inter_node_gbit": gbit}}
    return planned(
        {**asked, "hardware": hardware, "runtime": {"name": "deepspeed"}, "parallel": {"sharding": "zero3"}},
        TABLES,
    )


def share(sign: Sign) -> float:
    value = dict(sign.params)["frac"]
    assert isinstance(value, float)
    return value


def found(plan: Plan, links: Links | None = None, measured: Measured | None = None) -> dict[str, Sign]:
    return {sign.code: sign for sign in signs(plan, TABLES, links, measured)}


def test_d7_a_slow_network_is_more_than_a_third_of_the_step() -> None:
    slow, fast = (found(zero3(gbit)) for gbit in (25, 3200))
    assert slow["predicted_talk"].state == "attention"
    assert share(fast["predicted_talk"]) < share(slow["predicted_talk"])
    assert share(slow["predicted_talk"]) > 0.3
    assert dict(slow["predicted_talk"].params)["part"] == "data_parallel"
    assert slow["network_rate"].state == "attention"
    assert fast["network_rate"].state == "good"


def test_a_pipeline_waits_for_its_ends() -> None:
    told = found(job(pipeline=8, tensor=2))
    idle = share(told["predicted_bubble"])
    assert 0 < idle < 1
    assert (told["predicted_bubble"].state == "attention") == (idle > 0.15)


def test_one_card_talks_to_nobody() -> None:
    assert found(planned(full_training(), TABLES)) == {}


def test_a_run_beside_the_plan() -> None:
    told = found(job(tensor=8), measured=Measured(communication_frac=0.42, spread_frac=0.05))
    assert told["measured_talk"].state == "attention"
    assert told["measured_spread"].state == "good"
    assert found(job(tensor=8), measured=Measured())["measured_talk"].state == "unknown"


@pytest.mark.parametrize(
    ("links", "code", "state"),
    [
        (Links(socket=8, network="Socket", no_device=True), "nccl_sockets", "attention"),
        (Links(network="Socket"), "nccl_sockets", "attention"),
        (Links(rdma=4, network="IB"), "nccl_staged", "attention"),
        (Links(direct=4, network="IB"), "nccl_direct", "good"),
        (Links(shm=4), "nccl_host_memory", "attention"),
        (Links(p2p=4), "nccl_peer", "good"),
        (Links(p2p=4, ranks=8), "nccl_ranks", "unknown"),
        (Links(p2p=4, warnings=2, warning="x"), "nccl_warned", "attention"),
    ],
)
def test_what_nccl_says(links: Links, code: str, state: str) -> None:
    assert found(job(tensor=8), links)[code].state == state


def test_a_log_of_as_many_ranks_as_cards_says_nothing_of_it() -> None:
    assert "nccl_ranks" not in found(job(tensor=8), Links(p2p=4, ranks=16))
