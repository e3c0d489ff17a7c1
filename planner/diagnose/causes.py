"""Why it failed: one cause from the figures of a message, in an order learnt from real threads."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from planner.diagnose.layers import Layers, unallocated_of
from planner.diagnose.record import Record
from planner.plan_types import Plan
from planner.units import GIB

OTHERS_FRAC: Final = 0.10
"""Others on the card matter from this share of it."""
CONTEXT_MOST_BYTES: Final = 3 * GIB // 2
"""What a process takes outside PyTorch at most, before somebody else must be on the card."""
SHAPE_FRAC: Final = 0.5
FREE_FACTOR: Final = 4
CONTEXT_ONLY_FRAC: Final = 0.05
CACHED_FRAC: Final = 0.5
FRAGMENTED_FRAC: Final = 0.2
SLACK_FRAC: Final = 0.02
"""The caching allocator keeps about this share of a card in the best of cases; that much is no fragmentation."""


class Cause(StrEnum):
    """Why."""

    DEMAND = "demand"
    FRAGMENTATION = "fragmentation"
    MIXED = "mixed"
    ANOTHER_PROCESS = "another_process"
    FRACTION_CAP = "fraction_cap"
    SHAPE = "shape"
    CONTEXT_ONLY = "context_only"
    DRIVER_LIMIT = "driver_limit"
    DRIVER_SPILL = "driver_spill"
    DRIVER_UNREADABLE = "driver_unreadable"
    HOST_MEMORY = "host_memory"
    KV_TOO_SMALL = "kv_too_small"
    BUDGET_SPENT = "budget_spent"
    SMALL_CARD = "small_card"
    RECOVERED = "recovered"
    PARTIAL_OFFLOAD = "partial_offload"
    ENGINE_MINIMUM = "engine_minimum"
    POOL_BY_DESIGN = "pool_by_design"
    CACHED_NOT_USED = "cached_not_used"
    CONFIG_AUTO = "config_auto"
    TIMED_OUT = "timed_out"
    WARM_UP = "warm_up"
    DISPATCHED = "dispatched"
    WORKERS_SHARED_MEMORY = "workers_shared_memory"
    KERNEL_SHARED_MEMORY = "kernel_shared_memory"
    FIGURES = "figures"
    NOTHING = "nothing"


NO_FAILURE: Final = frozenset(
    {
        Cause.FIGURES,
        Cause.POOL_BY_DESIGN,
        Cause.CACHED_NOT_USED,
        Cause.CONFIG_AUTO,
        Cause.RECOVERED,
        Cause.NOTHING,
    }
)


SHORT: Final = frozenset({Cause.DEMAND, Cause.MIXED})
"""The step needs about all there is: less of anything helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """A cause.

    Attributes:
        cause: Which.
        certain: Whether the figures alone say so; else it is what is likely.
    """

    cause: Cause
    certain: bool = True


KILLS: Final = frozenset({"host_killed", "host_signal"})
"""Somebody ended the process; that it was for its memory is likely, not said."""
_BY_FORM: Final = {
    "vllm_length": Cause.KV_TOO_SMALL,
    "vllm_kv_needed": Cause.KV_TOO_SMALL,
    "vllm_no_blocks": Cause.BUDGET_SPENT,
    "vllm_load": Cause.DEMAND,
    "vllm_warm_up": Cause.WARM_UP,
    "bitsandbytes_dispatch": Cause.DISPATCHED,
    "dataloader_shm": Cause.WORKERS_SHARED_MEMORY,
    "kernel_shared_memory": Cause.KERNEL_SHARED_MEMORY,
    "vllm_startup_free": Cause.ANOTHER_PROCESS,
    "sglang_init": Cause.BUDGET_SPENT,
    "torch_driver": Cause.CONTEXT_ONLY,
    "ggml_driver": Cause.CONTEXT_ONLY,
    "nccl_memory": Cause.CONTEXT_ONLY,
    "nccl_timeout": Cause.TIMED_OUT,
    "torch_mps": Cause.FRACTION_CAP,
    "deepspeed_config": Cause.CONFIG_AUTO,
}


def why(record: Record, layers: Layers | None, plan: Plan | None, *, recovered: bool) -> Why:
    """The cause that a record's figures show.

    Args:
        record: The failure, or figures without one.
        layers: What was on the card, None where the text does not tell.
        plan: The open plan, if there is one.
        recovered: Whether the program went on afterwards.
    """
    if record.form.startswith("host_"):
        return Why(cause=Cause.HOST_MEMORY, certain=record.form not in KILLS)
    if record.form.startswith("nvml_"):
        return Why(cause=Cause.DRIVER_UNREADABLE)
    if record.form in _BY_FORM:
        return Why(cause=_BY_FORM[record.form], certain=record.form not in {"torch_driver", "ggml_driver"})
    if record.form.startswith("llama_cpp_") and record.failure:
        return _llama(record, plan, recovered=recovered)
    if not record.failure:
        return _of_figures(record, plan)
    if layers is None or record.size("total") is None:
        return Why(cause=Cause.DEMAND, certain=False)
    return _of_message(record, layers)


def _of_message(record: Record, layers: Layers) -> Why:
    """PyTorch's own message: whatever is not ruled out before it is demand."""
    whole, request = layers.total_bytes or 0, record.bytes("request")
    live, free = record.bytes("allocated"), record.bytes("free") or 0
    allowed = record.bytes("allowed")
    cached = unallocated_of(record)
    if (live is not None and live > whole) or record.fact("own_unknown"):
        return Why(cause=Cause.DRIVER_SPILL, certain=live is not None and live > whole)
    taken = (live or 0) + (cached.bytes if cached is not None else 0) + (request or 0)
    is_capped = allowed is not None and live is not None and taken > allowed - allowed // 100
    if is_capped and free >= (request or 0):
        return Why(cause=Cause.FRACTION_CAP)
    if found := _not_alone(layers, whole):
        return found
    if is_capped:
        return Why(cause=Cause.FRACTION_CAP)
    if request is None:
        return Why(cause=Cause.DEMAND, certain=False)
    return _of_request(request, layers, cached.bytes if cached is not None else None, live, free)


def _of_request(request: int, layers: Layers, cached: int | None, live: int | None, free: int) -> Why:
    """What the size of the request says beside what was free."""
    whole = layers.total_bytes or 0
    if request > whole or (request > SHAPE_FRAC * whole and live is not None and live < SHAPE_FRAC * whole):
        return Why(cause=Cause.SHAPE, certain=request > whole)
    if cached is not None and cached >= max(request, SLACK_FRAC * whole):
        return Why(cause=Cause.FRAGMENTATION)
    if free > FREE_FACTOR * request:
        return Why(cause=Cause.DRIVER_LIMIT)
    context = layers.bytes("context")
    if live is not None and context is not None and live < min(CONTEXT_ONLY_FRAC * whole, context):
        return Why(cause=Cause.CONTEXT_ONLY)
    if cached is not None and request > free and cached >= max(request - free, SLACK_FRAC * whole):
        return Why(cause=Cause.MIXED)
    return Why(cause=Cause.DEMAND)


def _not_alone(layers: Layers, whole: int) -> Why | None:
    """Whether others hold a good part of the card, as told or as what is left over."""
    others = sum(held.bytes for held in layers.held if held.name == "others")
    if others > OTHERS_FRAC * whole:
        return Why(cause=Cause.ANOTHER_PROCESS)
    unnamed = layers.bytes("unnamed") or max(0, (layers.bytes("outside") or 0) - CONTEXT_MOST_BYTES)
    if layers.bytes("unnamed") is None and (layers.bytes("outside") or 0) > max(
        OTHERS_FRAC * whole, CONTEXT_MOST_BYTES
    ):
        return Why(cause=Cause.ANOTHER_PROCESS, certain=False)
    if unnamed > OTHERS_FRAC * whole:
        return Why(cause=Cause.ANOTHER_PROCESS, certain=False)
    return None


def _llama(record: Record, plan: Plan | None, *, recovered: bool) -> Why:
    if recovered:
        return Why(cause=Cause.RECOVERED)
    if plan is not None and record.device is not None:
        own = next((d for d in plan.devices if record.device in d.indices), None)
        sizes = [d.usable_bytes for d in plan.devices if d.usable_bytes is not None]
        if own is not None and own.usable_bytes is not None and 2 * own.usable_bytes < max(sizes):
            return Why(cause=Cause.SMALL_CARD)
    return Why(cause=Cause.DEMAND)


def _of_figures(record: Record, plan: Plan | None) -> Why:
    """Figures of something that has not failed."""
    match record.form:
        case "ollama_offload":
            return _offload(record)
        case "deepspeed_usage" | "megatron" | "nemo":
            return _cached(record)
        case "memory_summary":
            return _summary(record)
        case "nvidia_smi" | "nvidia_smi_query" if plan is not None and plan.serving is not None:
            return _pool(record, plan)
        case _:
            return Why(cause=Cause.FIGURES)


def _offload(record: Record) -> Why:
    done, layers = record.number("layers_offload"), record.number("layers_model")
    needed, free = record.bytes("needed"), record.bytes("free")
    if done == 0 and needed is not None and free is not None and needed <= free:
        return Why(cause=Cause.ENGINE_MINIMUM)
    if done is not None and layers is not None and done < layers:
        return Why(cause=Cause.PARTIAL_OFFLOAD)
    return Why(cause=Cause.FIGURES)


def _cached(record: Record) -> Why:
    reserved, cached = record.bytes("reserved"), unallocated_of(record)
    if reserved and cached is not None and cached.bytes > max(GIB, CACHED_FRAC * reserved):
        return Why(cause=Cause.CACHED_NOT_USED)
    return Why(cause=Cause.FIGURES)


def _summary(record: Record) -> Why:
    reserved, cached = record.bytes("reserved"), unallocated_of(record)
    tried = (record.number("retries") or 0) + (record.number("ooms") or 0)
    if tried and reserved and cached is not None and cached.bytes > FRAGMENTED_FRAC * reserved:
        return Why(cause=Cause.FRAGMENTATION, certain=False)
    return Why(cause=Cause.FIGURES)


def _pool(record: Record, plan: Plan) -> Why:
    """An engine that fills its share of the card with the KV pool, whatever the model needs."""
    served, used = plan.serving, record.bytes("used")
    if served is None or used is None or served.budget_bytes is None:
        return Why(cause=Cause.FIGURES)
    if 2 * served.needs_bytes < used <= served.reserves_bytes + CONTEXT_MOST_BYTES:
        return Why(cause=Cause.POOL_BY_DESIGN)
    return Why(cause=Cause.FIGURES)
