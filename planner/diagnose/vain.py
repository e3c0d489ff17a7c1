"""What is often said after a failure and would not help, with the reason."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from planner.diagnose.causes import SHORT, Cause
from planner.diagnose.failure import Failure
from planner.diagnose.tensors import Tensor
from planner.plan_types import Plan

BATCH_IS_NOT_IT: Final = {
    Cause.ANOTHER_PROCESS: "another_process",
    Cause.DRIVER_LIMIT: "driver_limit",
    Cause.DRIVER_UNREADABLE: "driver_limit",
    Cause.SHAPE: "shape",
    Cause.CONTEXT_ONLY: "context_only",
    Cause.HOST_MEMORY: "host_memory",
    Cause.TIMED_OUT: "timed_out",
    Cause.KV_TOO_SMALL: "engine",
    Cause.BUDGET_SPENT: "engine",
    Cause.SMALL_CARD: "engine",
    Cause.ENGINE_MINIMUM: "engine",
    Cause.PARTIAL_OFFLOAD: "engine",
    Cause.WORKERS_SHARED_MEMORY: "host_memory",
}
_BATCH_FREE_PHASES: Final = frozenset({"save", "load", "optimizer_step"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Vain:
    """Something that is often said and would not help here.

    Attributes:
        code: What.
        reason: Why not.
    """

    code: str
    reason: str


def vain_for(failure: Failure) -> Iterator[Vain]:
    """What would not help. The batch of a plan that trains is none of a server's own."""
    cause, tensor, plan = failure.why.cause, failure.tensor, failure.plan
    if failure.of_server and plan is not None and plan.resolved.is_training:
        plan = None
    if reason := _batch_reason(cause, failure.phase, tensor, plan):
        yield Vain(code="smaller_batch", reason=reason)
    request, free, cached = (failure.figures.get(name) for name in ("request", "free", "unallocated"))
    if request is None or free is None:
        return
    if cause is Cause.ANOTHER_PROCESS or (
        cause in {Cause.DEMAND, Cause.SHAPE} and cached is not None and cached < request - free
    ):
        yield Vain(code="expandable_segments", reason="too_little_cached")
    if cause not in {Cause.DRIVER_UNREADABLE, Cause.HOST_MEMORY}:
        yield Vain(code="empty_cache", reason="done_before_it_raised")
    if tensor is not None and tensor.grows_with in {"batch", "length"} and plan is not None:
        yield Vain(code="more_data_parallel", reason="each_card_keeps_its_batch")


def _batch_reason(cause: Cause, phase: str | None, tensor: Tensor | None, plan: Plan | None) -> str:
    if cause in BATCH_IS_NOT_IT:
        return BATCH_IS_NOT_IT[cause]
    if cause not in SHORT:
        return ""
    if phase in _BATCH_FREE_PHASES:
        return "not_in_this_phase"
    if tensor is not None and tensor.grows_with == "model":
        return "tensor_of_the_model"
    if plan is not None and plan.resolved.is_training and plan.resolved.training.micro_batch == 1:
        return "already_one"
    return ""
