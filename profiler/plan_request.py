"""From a plan to a request: what to run, what it is expected to take, and whether to start it at all."""

import json
from dataclasses import dataclass
from typing import Any, Final

from planner.plan_types import Plan, Verdict
from planner.scenario import to_document
from planner.units import MIB
from profiler.class_names import in_class_names
from profiler.compare import as_on_cpu, comparable
from profiler.cpu_kernels import cpu_kernels
from profiler.documents import DeviceKind, Param, Remark
from profiler.rank_place import RankPlace, why_not_runnable_here

CHILD_BYTES: Final = 640 * MIB
"""Host memory that the child takes beside its tensors: PyTorch, transformers, PEFT, allocator slack.

Measured: peak of `VmRSS` less peak of the tensors, 0.38 to 0.58 GiB in five runs (GPT-2 and a 48M Llama,
fp32 and bf16, LoRA) with torch 2.13.0+cpu and transformers 5.24.0 on Linux, 2026-11-29; rounded up.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A measurement that could be started.

    Attributes:
        scenario: The scenario document with every default filled in.
        config: The model's config.json keys.
        predicted_bytes: What the plan expects this device to count as allocated at the peak.
        needed_bytes: What has to be free for it, the process itself included.
        refused: Fields that one step on this device cannot honour; empty if it can run.
        too_large: Why the plan says it won't fit, None if it fits or nothing is known. The user may insist.
    """

    scenario: dict[str, Any]
    config: dict[str, Any]
    predicted_bytes: int
    needed_bytes: int
    refused: tuple[Remark, ...] = ()
    too_large: Remark | None = None


def prepare(
    plan: Plan, device: DeviceKind, free_bytes: int | None, place: RankPlace | None = None
) -> Prepared:
    """Everything a start needs, and whether it should be made.

    Args:
        plan: The plan of the scenario to measure.
        device: Where to run it.
        free_bytes: Free host memory for `cpu`, free device memory for `cuda`; None if not known.
        place: Which rank of a job this is, None for a job of one. Ranks of one machine share its host memory.
    """
    predicted = predicted_bytes(plan, device)
    sharing = 1 if place is None else place.local_world
    needed = sharing * (predicted + CHILD_BYTES) if device == "cpu" else plan.worst.peak_bytes
    return Prepared(
        scenario=to_document(plan.resolved) | {"model": _model_document(plan)},
        config=in_class_names({key: json.loads(text) for key, text in plan.model.config}),
        predicted_bytes=predicted,
        needed_bytes=needed,
        refused=why_not_runnable_here(plan.resolved, device, place),
        too_large=_too_large(plan, device, needed, free_bytes),
    )


def predicted_bytes(plan: Plan, device: DeviceKind) -> int:
    """Peak of the live tensors that this device can have."""
    ledger, on_cpu = plan.worst.ledger, device == "cpu"
    if on_cpu and plan.resolved.is_training:
        ledger = as_on_cpu(ledger, cpu_kernels(plan.resolved, plan.model))
    return max(
        sum(entry.bytes for entry in comparable(ledger, phase, on_cpu=on_cpu)) for phase in ledger.phases
    )


def _model_document(plan: Plan) -> dict[str, Any]:
    given = plan.scenario.model
    document: dict[str, Any] = {} if given.id is None else {"id": given.id}
    if given.config is not None:
        document["config"] = dict(given.config)
    return document


def _too_large(plan: Plan, device: DeviceKind, needed: int, free_bytes: int | None) -> Remark | None:
    params: dict[str, Param] = {"needed_bytes": needed, "free_bytes": free_bytes, "device": device}
    if free_bytes is not None:
        return Remark(code="will_not_fit", params=params) if needed > free_bytes else None
    if device == "cuda" and plan.verdict is Verdict.DOES_NOT_FIT:
        return Remark(code="will_not_fit", params=params)
    return None
