"""From a plan to a trace: what to run, for which device, and what its card can give the allocator."""

from dataclasses import dataclass
from typing import Any

from planner.ledger import Layer
from planner.plan_types import DevicePlan, Plan
from profiler.allocator.settings import AllocatorSettings
from profiler.documents import Remark
from profiler.plan_request import prepare
from profiler.trace.division import part_of
from profiler.trace.documents import Attention, Target, TraceOptions
from profiler.trace.traceable import why_not_traceable

Capability = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A trace that could be started.

    Attributes:
        scenario: The scenario document with every default filled in.
        config: The model's config.json keys.
        options: How to trace.
        settings: The allocator's.
        capacity_bytes: What the card can give the allocator, None if not known.
        refused: Fields that a trace cannot follow; empty if it can.
    """

    scenario: dict[str, Any]
    config: dict[str, Any]
    options: TraceOptions
    settings: AllocatorSettings
    capacity_bytes: int | None
    refused: tuple[Remark, ...]


def ask(
    plan: Plan, capability: Capability | None, settings: AllocatorSettings | None = None, rank: int = 0
) -> Asked:
    """Everything a start needs, and whether it can be made.

    Args:
        plan: The plan of the scenario to trace.
        capability: CUDA compute capability of its card, None where it has none.
        settings: The allocator's; None: as the scenario's runtime says.
        rank: Which rank of a divided job.

    Raises:
        ValueError: The job has no such rank.
    """
    prepared = prepare(plan, "cuda", None)
    refused = why_not_traceable(plan.resolved)
    if capability is None:
        refused += (_no_capability(plan.worst),)
    growing = plan.resolved.runtime.allocator == "expandable_segments"
    asked: Attention = "flash" if plan.resolved.training.attention == "flash" else "auto"
    target = Target(
        compute_capability=capability or (9, 0), attention=asked, part=part_of(plan.resolved, rank)
    )
    return Asked(
        scenario=prepared.scenario,
        config=prepared.config,
        options=TraceOptions(target=target),
        settings=settings or AllocatorSettings(expandable_segments=growing),
        capacity_bytes=capacity_bytes(plan.worst),
        refused=refused,
    )


def capacity_bytes(device: DevicePlan) -> int | None:
    """What a card can give the allocator: what the runtime can use, less what the process holds outside it."""
    return None if device.usable_bytes is None else max(device.usable_bytes - outside_bytes(device), 0)


def outside_bytes(device: DevicePlan) -> int:
    """What the process and others hold on a card beside the allocator, at the peak."""
    return sum(
        entry.bytes
        for entry in device.ledger.alive(device.peak_phase)
        if entry.layer in {Layer.PROCESS, Layer.DEVICE}
    )


def _no_capability(device: DevicePlan) -> Remark:
    return Remark(
        code="card_not_traced",
        field="hardware.devices",
        params={"given": device.gpu_id, "allowed": "a card with a CUDA compute capability"},
    )
