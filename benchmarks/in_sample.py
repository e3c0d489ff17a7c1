"""Constants that were read from rows which they also help to predict.

A constant may not be tuned on a row that it is scored on. These break that for a part of their rows, because
no other reading is public; the score names them, so that nobody takes those cells for a test.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from planner.accuracy.truth import Record
from planner.hardware import Constant

_POOL: Final = ("non_kv_bytes", "kv_bytes", "kv_tokens", "kv_blocks", "max_concurrency")
"""What follows from the parts of an engine's budget: the rest of it becomes the pool."""
_PEAK: Final = ("activation_peak_bytes", *_POOL)
_OUTSIDE: Final = ("non_torch_bytes", *_POOL)
_GRAPHS: Final = ("cuda_graph_bytes",)
_CONTEXT: Final = ("cuda_context_bytes",)

FEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "allocator_loaded_frac": ("device_used_bytes",),
    "allocator_retained_frac": ("device_used_bytes",),
    "allocator_shared_frac": ("device_used_bytes",),
    "training_modules_bytes": ("device_used_bytes",),
    "cuda_context_hopper_bytes": _CONTEXT,
    "nccl_communicator_bytes": _CONTEXT,
    "vllm_sampler_bytes_per_logit": _PEAK,
    "vllm_sampler_bytes_per_logit_before_017": _PEAK,
    "vllm_hidden_copies": _PEAK,
    "vllm_v0_hidden_copies": _PEAK,
    "vllm_non_torch_bytes": _OUTSIDE,
    "vllm_non_torch_before_018_bytes": _OUTSIDE,
    "vllm_non_torch_tensor_parallel_bytes": _OUTSIDE,
    "vllm_non_torch_tensor_parallel_before_018_bytes": _OUTSIDE,
    "vllm_non_torch_pipeline_bytes": _OUTSIDE,
    "vllm_graph_layer_bytes": _GRAPHS,
    "llama_display_card_bytes": ("fits",),
}
"""Metrics that a constant decides, the one it was read from first."""

UNNAMED: Final[Mapping[str, str]] = {
    "accuracy/results/v0.19.0/logs": "vllm-0.19-h100-logs",
}
"""Sources that a constant names by their path and a record by its family."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InSample:
    """A constant and the cells that it was read from.

    Attributes:
        name: Key in the constants files.
        families: Sources of the readings that are scored too.
        metrics: Figures of theirs that the constant decides, the one it was read from first.
        n_rows: Readings behind it.
    """

    name: str
    families: tuple[str, ...]
    metrics: tuple[str, ...]
    n_rows: int | None


def in_sample(constants: Mapping[str, Constant], records: Iterable[Record]) -> tuple[InSample, ...]:
    """Every constant whose source is a family of the records."""
    families = sorted({record.family for record in records})
    found: list[InSample] = []
    for name, constant in sorted(constants.items()):
        named = families_in(f"{constant.source} {constant.how}", families)
        if named and name in FEEDS:
            found.append(InSample(name=name, families=named, metrics=FEEDS[name], n_rows=constant.n_rows))
    return tuple(found)


def families_in(text: str, families: Iterable[str]) -> tuple[str, ...]:
    """Families that a constant's own text names."""
    by_path = {family for path, family in UNNAMED.items() if path in text}
    return tuple(family for family in families if family in text or family in by_path)
