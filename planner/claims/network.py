"""The network that jobs over several nodes need, against what the articles ask for and what nodes have."""

from dataclasses import replace
from typing import Any, Final

from planner.claims.bytes_per_parameter import LLAMA_2_7B, LLAMA_2_70B
from planner.claims.training import full_training
from planner.claims.types import Claim, Figure, Outcome, planned
from planner.hardware import Tables
from planner.plan_types import Plan
from planner.throughput.network_need import network_need
from planner.throughput.training_speed import training_speed
from planner.units import GB

H100: Final = "h100-sxm-80gb"
HUNDRED_GBIT: Final = 12.5 * GB
"""100 Gbit/s a node: the least that the articles ask for."""
SAID_LATENCY_S: Final = 5e-6
HOP: Final = "speed_train_hop_s"
LAYOUTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "7b": (LLAMA_2_7B, {"sharding": "fsdp"}),
    "70b": (LLAMA_2_70B, {"sharding": "fsdp"}),
    "70b_stages": (LLAMA_2_70B, {"tensor": 8, "pipeline": 4}),
}
"""Jobs of 64 H100 on 8 nodes: sharded over all cards, and divided so that little leaves a node."""


def job_over_nodes(name: str, tables: Tables, gbit: float | None = None) -> Plan:
    """The plan of one of `LAYOUTS`, one sequence of 4,096 tokens a card.

    Args:
        name: Key of `LAYOUTS`.
        tables: Cards and servers.
        gbit: Network of a node; None for the node's own.
    """
    model, parallel = LAYOUTS[name]
    links = {} if gbit is None else {"links": {"inter_node_gbit": gbit}}
    copies = 64 // (parallel.get("tensor", 1) * parallel.get("pipeline", 1))
    job = full_training(
        model,
        cards=64,
        gpu=H100,
        sequence_length=4096,
        checkpointing="full",
        gradient_accumulation=64 // copies,
    )
    job["hardware"] = {**job["hardware"], "devices_per_node": 8, **links}
    runtime = "deepspeed" if copies == 64 else "megatron_lm"
    return planned({**job, "runtime": {"name": runtime}, "parallel": parallel}, tables)


def waiting_frac(plan: Plan, tables: Tables) -> float:
    """Share of the step that waits for other cards."""
    return training_speed(plan, tables).communication_frac or 0.0


def latency_frac(plan: Plan, tables: Tables, seconds: float) -> float:
    """Share of the step that the latency of messages takes, the volume left as it is."""
    times = []
    for latency in (0.0, seconds):
        fixed = replace(tables.constants[HOP], value=latency)
        changed = replace(tables, constants={**tables.constants, HOP: fixed})
        times.append(training_speed(plan, changed).step_time_s or 0.0)
    return 1 - times[0] / times[1]


def e6(tables: Tables) -> Claim:
    """The network a job over several nodes needs, against 100 Gbit/s a node and against the nodes' own."""
    figures, own = [], None
    for name in LAYOUTS:
        made = job_over_nodes(name, tables)
        need = network_need(made, training_speed(made, tables), tables)
        if need is None:
            continue
        own = need.own_bytes_per_s
        figures.append(
            Figure(
                name=f"needed_{name}", said=HUNDRED_GBIT, found=need.needed_bytes_per_s, unit="bytes_per_s"
            )
        )
        slow = job_over_nodes(name, tables, HUNDRED_GBIT * 8 / GB)
        figures.append(
            Figure(name=f"waits_at_100_gbit_{name}", said=None, found=waiting_frac(slow, tables), unit="frac")
        )
        figures.append(Figure(name=f"waits_{name}", said=None, found=waiting_frac(made, tables), unit="frac"))
    if own is not None:
        figures.append(Figure(name="node_has", said=None, found=own, unit="bytes_per_s"))
    made = job_over_nodes("70b", tables)
    for name, seconds in (("5_us", SAID_LATENCY_S), ("50_us", 10 * SAID_LATENCY_S)):
        figures.append(
            Figure(name=f"latency_{name}", said=None, found=latency_frac(made, tables, seconds), unit="frac")
        )
    return Claim(id="e6", outcome=Outcome.DEPENDS, figures=tuple(figures))
