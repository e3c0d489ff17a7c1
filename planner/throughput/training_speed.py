"""How long a training step takes, how many tokens it passes, and what binds it."""

from dataclasses import dataclass
from typing import Final

from planner.hardware import Tables
from planner.plan_types import Plan
from planner.throughput.bands import speed_band
from planner.throughput.step_work import StepWork, TrainingCounts
from planner.throughput.training_time import (
    HIDDEN_FRAC,
    StepParts,
    runtime_factor,
    scaled,
    step_parts,
    training_rates,
)
from planner.throughput.training_work import training_work
from planner.throughput.types import Part, PartName, SpeedBand, Unknown

REFERENCES: Final[dict[PartName, str]] = {
    "matrix_products": "matrix_flops",
    "attention": "attention_flops",
    "memory_traffic": "roofline",
    "recompute": "recompute",
    "launches": "kernel_launches",
    "tensor_parallel": "ring_all_reduce",
    "context_parallel": "ring_all_reduce",
    "expert_parallel": "expert_all_to_all",
    "stage_transfers": "stage_transfers",
    "data_parallel": "ring_all_reduce",
    "pipeline_bubble": "pipeline_bubble",
    "optimizer_step": "roofline",
    "host_transfers": "offload_transfers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSpeed:
    """One optimizer step. Figures are None where `missing` says what the tables lack.

    Attributes:
        step_time_s: Seconds of a step.
        parts: What it is made of, in order of a stacked bar; they add up to the step.
        band: The interval nine of ten published runs lie in, None where there are too few.
        tokens_per_s: Tokens of all cards together, padding included.
        tokens_per_s_per_gpu: The same of one card.
        mfu: Model operations over what the cards could do in the lowest format the products use.
        hfu: With operations that checkpointing does again.
        bound: The largest part.
        step_tokens: Tokens of a step over all cards.
        model_flops: Operations of a step over all cards, none done again.
        communication_frac: Share of the step that waits for other cards.
        network_bytes: What a card sends to other nodes in a step; 0 on one node.
        network_bytes_per_s: Rate per card at which that would hide behind the computing; 0 on one node.
        missing: What the tables lack.
    """

    step_time_s: float | None
    parts: tuple[Part, ...]
    band: SpeedBand | None
    tokens_per_s: float | None
    tokens_per_s_per_gpu: float | None
    mfu: float | None
    hfu: float | None
    bound: PartName | None
    step_tokens: float
    model_flops: float
    communication_frac: float | None
    network_bytes: float
    network_bytes_per_s: float | None
    missing: tuple[Unknown, ...] = ()


LEAST_FRAC: Final = 1e-9
"""Parts below that share are what rounding leaves."""
WAITS: Final = ("tensor_parallel", "context_parallel", "expert_parallel", "stage_transfers", "data_parallel")


def training_speed(plan: Plan, tables: Tables) -> TrainingSpeed:
    """The speed of a training plan.

    Args:
        plan: A plan of a job that trains, whether it fits or not.
        tables: Cards, servers and the constants `speed_train_*`.

    Raises:
        ValueError: The plan serves.
    """
    if not plan.scenario.is_training:
        raise ValueError("task: serve; a training speed needs a task that trains")
    work, counts, missing = training_work(plan, tables)
    if work is None:
        return _unknown(counts, missing)
    factor = runtime_factor(plan.resolved.runtime, tables)
    return _speed(work, counts, scaled(step_parts(work, training_rates(tables)), factor), plan, tables)


def _speed(
    work: StepWork, counts: TrainingCounts, times: StepParts, plan: Plan, tables: Tables
) -> TrainingSpeed:
    total = times.total
    parts = _parts(times)
    waits = sum(getattr(times, name) for name in WAITS)
    capacity = counts.cards * (counts.peak or work.peak) * total
    kind = "train_moe" if plan.model.has_experts else "train_dense"
    return TrainingSpeed(
        step_time_s=total,
        parts=parts,
        band=speed_band(total, kind, tables),
        tokens_per_s=counts.step_tokens / total,
        tokens_per_s_per_gpu=counts.step_tokens / total / counts.cards,
        mfu=counts.model_flops / capacity,
        hfu=counts.hardware_flops / capacity,
        bound=max(parts, key=lambda part: part.time_s).name,
        step_tokens=counts.step_tokens,
        model_flops=counts.model_flops,
        communication_frac=waits / total,
        network_bytes=counts.network_bytes,
        network_bytes_per_s=counts.network_bytes / (HIDDEN_FRAC * (total - waits)),
    )


def _parts(times: StepParts) -> tuple[Part, ...]:
    return tuple(
        Part(name=name, time_s=getattr(times, name), reference=reference)
        for name, reference in REFERENCES.items()
        if getattr(times, name) > times.total * LEAST_FRAC
    )


def _unknown(counts: TrainingCounts, missing: tuple[Unknown, ...]) -> TrainingSpeed:
    return TrainingSpeed(
        step_time_s=None, parts=(), band=None, tokens_per_s=None, tokens_per_s_per_gpu=None, mfu=None, hfu=None,
        bound=None, step_tokens=counts.step_tokens, model_flops=counts.model_flops, communication_frac=None,
        network_bytes=0.0, network_bytes_per_s=None, missing=missing,
    )  # fmt: skip
