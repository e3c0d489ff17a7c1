"""The articles' checklist of a run, each item from the plan and, where there is one, from a measurement."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from planner.diagnose.links import State
from planner.hardware import Tables
from planner.issues import Param
from planner.ledger import Category
from planner.plan_types import Plan
from planner.throughput.serving_speed import serving_speed
from planner.throughput.training_speed import WAITS, training_speed

HALF: Final = frozenset({"bf16", "fp16", "fp8"})
ACTIVATIONS_FRAC: Final = 0.5
BUSY_FRAC: Final = 0.8
BANDWIDTH_FRAC: Final = 0.6
IDLE: Final = (*WAITS, "pipeline_bubble", "host_transfers", "launches")
READS: Final = ("weights_read", "kv_read")
ITEMS: Final = (
    *("versions", "cudnn_benchmark", "threads", "precision", "checkpointing", "offload"),
    *("utilisation", "swapping", "bandwidth"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of the list.

    Attributes:
        code: Stable id; locale files word it.
        planned: What the plan says of it.
        measured: What a run says of it; `unknown` without one.
        params: Values for the sentence on the plan.
    """

    code: str
    planned: State
    measured: State
    params: tuple[tuple[str, Param], ...] = ()


def checklist(
    plan: Plan, tables: Tables, measured: Mapping[str, bool | None] | None = None
) -> tuple[Item, ...]:
    """Every item that concerns the job, in order.

    Args:
        plan: The open plan.
        tables: Cards and the speed constants.
        measured: What a run told, by item: ticked, crossed, or None.
    """
    told = measured or {}
    return tuple(
        Item(code=code, planned=_state(good), measured=_state(told.get(code)), params=tuple(params.items()))
        for code, good, params in _planned(plan, tables)
    )


def _state(good: bool | None) -> State:
    return "unknown" if good is None else "good" if good else "attention"


Planned = tuple[str, bool | None, dict[str, Param]]


def _planned(plan: Plan, tables: Tables) -> Iterator[Planned]:
    asked = plan.resolved
    yield "versions", None, {}
    if asked.is_training:
        yield "cudnn_benchmark", None, {}
        yield "threads", None, {}
    yield _precision(plan)
    if asked.is_training:
        yield _checkpointing(plan)
    if "cpu" in _offloads(plan) or "nvme" in _offloads(plan):
        yield (
            "offload",
            not any(issue.code in {"host_memory_short", "nvme_short"} for issue in plan.issues),
            {"host_bytes": plan.host.memory_bytes},
        )
    yield _utilisation(plan, tables)
    yield _swapping(plan)
    if not asked.is_training:
        yield _bandwidth(plan, tables)


def _offloads(plan: Plan) -> frozenset[str]:
    offload = plan.resolved.parallel.offload
    return frozenset({offload.parameters, offload.optimizer, offload.gradients})


def _precision(plan: Plan) -> Planned:
    asked = plan.resolved
    compute = asked.training.precision.compute if asked.is_training else asked.serving.weights
    good = None if compute is None else compute in HALF if asked.is_training else compute != "fp32"
    return "precision", good, {"compute": compute}


def _checkpointing(plan: Plan) -> Planned:
    """Whether activations are most of a full card and nothing of them is computed again."""
    worst = plan.worst
    kept = worst.ledger.category_bytes(worst.peak_phase, Category.ACTIVATIONS)
    share = kept / worst.peak_bytes if worst.peak_bytes else 0.0
    return (
        "checkpointing",
        plan.resolved.training.checkpointing
        not in {
            None,
            "none",
        }
        or share <= ACTIVATIONS_FRAC,
        {"frac": share},
    )


def _utilisation(plan: Plan, tables: Tables) -> Planned:
    """Share of a training step in which the card computes; a server's use follows its load."""
    if not plan.resolved.is_training:
        return "utilisation", None, {"frac": None}
    speed = training_speed(plan, tables)
    if not speed.step_time_s:
        return "utilisation", None, {"frac": None}
    idle = sum(part.time_s for part in speed.parts if part.name in IDLE)
    busy = 1 - idle / speed.step_time_s
    return "utilisation", busy > BUSY_FRAC, {"frac": busy, "bound": speed.bound}


def _swapping(plan: Plan) -> Planned:
    short = any(issue.code == "host_memory_short" for issue in plan.issues)
    spills = plan.resolved.hardware.driver_spill and (plan.worst.headroom_bytes or 0) < 0
    return "swapping", not (short or spills), {"host_bytes": plan.host.memory_bytes}


def _bandwidth(plan: Plan, tables: Tables) -> Planned:
    """Share of a decoding step that reads weights and cache, which is when the memory is busy."""
    speed = serving_speed(plan, tables)
    if not speed.tpot_s:
        return "bandwidth", None, {"frac": None}
    share = sum(part.time_s for part in speed.parts if part.name in READS) / speed.tpot_s
    return "bandwidth", share > BANDWIDTH_FRAC, {"frac": share, "bound": speed.bound}
