"""Signs that cards wait for each other: shares of the predicted and the measured step, and what NCCL's log says."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from planner.diagnose.links import SOCKETS, Links, State
from planner.hardware import Tables
from planner.issues import Param
from planner.plan_types import Plan
from planner.throughput.links import network, node_of
from planner.throughput.training_speed import WAITS, TrainingSpeed, training_speed

TALK_FRAC: Final = 0.3
SPREAD_FRAC: Final = 0.15
"""The articles' signs: more than this share of the step, more than this between the cards' use."""
BUBBLE_FRAC: Final = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a run told about its ranks; None where it was not measured.

    Attributes:
        communication_frac: Share of a step that the rank that talks most talks, waiting included.
        spread_frac: The fastest rank's step against the slowest's, as 1 - fast / slow.
    """

    communication_frac: float | None = None
    spread_frac: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """One thing that was looked at.

    Attributes:
        code: Stable id; locale files word it.
        state: `good`, `attention` or `unknown`.
        params: Values for the sentence: `_frac` a share, `_bytes_per_s` a rate.
    """

    code: str
    state: State
    params: tuple[tuple[str, Param], ...] = ()


def signs(
    plan: Plan, tables: Tables, links: Links | None = None, measured: Measured | None = None
) -> tuple[Sign, ...]:
    """Every sign, predicted ones first.

    Args:
        plan: The open plan.
        tables: Cards, servers and the speed constants.
        links: What NCCL's lines said.
        measured: What a run of it told.
    """
    found: list[Sign] = []
    if plan.resolved.is_training and plan.resolved.hardware.num_devices > 1:
        found += _predicted(training_speed(plan, tables), plan, tables)
    return (*found, *_of_run(measured), *(_of_log(links, plan) if links is not None else ()))


def _sign(code: str, state: State, **params: Param) -> Sign:
    return Sign(code=code, state=state, params=tuple(params.items()))


def _judged(code: str, value: float | None, most: float, **params: Param) -> Sign:
    """A share that should not be above another."""
    state: State = "unknown" if value is None else "attention" if value > most else "good"
    return _sign(code, state, frac=value, most_frac=most, **params)


def _predicted(speed: TrainingSpeed, plan: Plan, tables: Tables) -> Iterator[Sign]:
    step, times = speed.step_time_s, {part.name: part.time_s for part in speed.parts}
    talk = {name: times[name] for name in WAITS if name in times}
    worst = max(talk, key=lambda name: talk[name], default=None)
    yield _judged("predicted_talk", speed.communication_frac, TALK_FRAC, part=worst)
    if plan.resolved.parallel.pipeline > 1:
        idle = times.get("pipeline_bubble", 0.0)
        yield _judged("predicted_bubble", None if not step else idle / step, BUBBLE_FRAC)
    needed = speed.network_bytes_per_s
    if speed.network_bytes and needed:
        has = _network(plan, tables)
        state: State = "unknown" if has is None else "good" if has >= needed else "attention"
        yield _sign("network_rate", state, needed_bytes_per_s=needed, has_bytes_per_s=has)


def _network(plan: Plan, tables: Tables) -> float | None:
    """Rate between nodes of one card; None where neither the question nor the tables tell."""
    hardware = plan.resolved.hardware
    gpu = tables.gpus.get(plan.worst.gpu_id)
    per_node = hardware.devices_per_node
    if per_node is None:
        return None
    return network(hardware.links, per_node, node_of(gpu, tables) if gpu is not None else None)


def _of_run(measured: Measured | None) -> Iterator[Sign]:
    if measured is None:
        return
    yield _judged("measured_talk", measured.communication_frac, TALK_FRAC)
    yield _judged("measured_spread", measured.spread_frac, SPREAD_FRAC)


def _of_log(links: Links, plan: Plan) -> Iterator[Sign]:
    """What NCCL's lines say by themselves, and beside the plan."""
    if links.socket or (links.network == SOCKETS and not links.between_nodes):
        yield _sign("nccl_sockets", "attention", channels=links.socket, no_device=int(links.no_device))
    elif links.rdma or (links.no_direct and not links.direct):
        yield _sign("nccl_staged", "attention", channels=links.rdma)
    elif links.direct:
        yield _sign("nccl_direct", "good", channels=links.direct, network=links.network or None)
    if links.shm:
        state: State = "attention" if plan.resolved.parallel.tensor > 1 else "good"
        yield _sign("nccl_host_memory", state, channels=links.shm)
    elif links.p2p:
        yield _sign("nccl_peer", "good", channels=links.p2p)
    planned = plan.resolved.hardware.num_devices
    if links.ranks and plan.resolved.is_training and links.ranks != planned:
        yield _sign("nccl_ranks", "unknown", ranks=links.ranks, planned=planned)
    if links.warnings:
        yield _sign("nccl_warned", "attention", count=links.warnings, text=links.warning)
