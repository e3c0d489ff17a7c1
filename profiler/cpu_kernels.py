"""What CPU kernels keep otherwise than the CUDA kernels that plans are made for: named adjustments of single entries.

Each is exact for the classes it names, and says why it is there; the comparison lists them beside what only a CUDA
device has.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from planner.ledger import Entry
from planner.memory.activations import COMPOSED_GELU
from planner.memory.adapters import layer_sites
from planner.memory.formats import dtype_bytes
from planner.model.spec import AttentionKind, ModelSpec, Part, Split
from planner.scenario import Scenario

LAYER_ENTRIES: Final = frozenset({"saved_activations", "recomputed_layer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuKernels:
    """What of a job decides it.

    Attributes:
        compute_bytes: Bytes of an element in matrix products.
        adapter_mask_bytes: Bytes of an element that an adapter drops.
        widens_gelu: CUDA's autocast makes a composed GELU's power and tanh in fp32, CPU's does not.
        half_statistics: Layer norms keep mean and deviation in 16 bit.
        norms: Layer norms of a layer.
        groups_queries: The CPU's flash kernel takes fp32 and grouped queries; no CUDA kernel takes both.
        flash_bytes: Bytes per token and layer that this kernel keeps and the composed form does not: keys and values
            as they are, a number per head, and the output where nothing else keeps it.
    """

    compute_bytes: int
    adapter_mask_bytes: int
    widens_gelu: bool
    half_statistics: bool
    norms: int
    groups_queries: bool
    flash_bytes: int


def cpu_kernels(scenario: Scenario, model: ModelSpec) -> CpuKernels:
    """The facts of a resolved training scenario.

    Args:
        scenario: The question, defaults filled in.
        model: The model.
    """
    precision, training = scenario.training.precision, scenario.training
    stored = dtype_bytes(precision.parameters, 2)
    compute = dtype_bytes(precision.compute, stored)
    adapter = dtype_bytes(scenario.adapter.dtype, stored) if scenario.adapter is not None else stored
    shape, autocast = model.layers[0].attention, bool(precision.autocast)
    grouped = shape.num_kv_heads != shape.num_heads and shape.kind is not AttentionKind.MLA
    cached = scenario.runtime.name == "generic" and training.checkpointing == "none"
    kept = [] if cached else [shape.k_width, shape.v_width]
    if not _reads_output(scenario, model):
        kept.append(shape.num_heads * shape.v_head_dim)
    return CpuKernels(
        compute_bytes=compute,
        adapter_mask_bytes=compute if autocast else adapter,
        widens_gelu=autocast and compute < 4 and model.hidden_act in COMPOSED_GELU,
        half_statistics=model.norm == "layer_norm" and compute < 4 and not autocast,
        norms=1 if model.parallel_residual else 2,
        groups_queries=compute == 4 and training.attention == "sdpa" and grouped,
        flash_bytes=4 * (shape.num_heads + sum(kept)),
    )


def _reads_output(scenario: Scenario, model: ModelSpec) -> bool:
    """Whether the projection after attention keeps its input: it is trained, or has an adapter."""
    if scenario.adapter is None:
        return True
    sites = layer_sites(model.layers[0], scenario.adapter)
    return any(site.part is Part.ATTENTION and site.split is Split.ROW for site in sites)


Amount = Callable[[Entry, dict[str, int | float], CpuKernels], float]


def _score_bytes(entry: Entry, _: dict[str, int | float], cpu: CpuKernels) -> float:
    return -entry.bytes if cpu.groups_queries and entry.name == "attention_scores" else 0


def _attention_bytes(entry: Entry, n: dict[str, int | float], cpu: CpuKernels) -> float:
    """Keys and values as they are, not repeated for every query head; and a number per head."""
    if not cpu.groups_queries or entry.name not in LAYER_ENTRIES or "q" not in n:
        return 0
    return n["L"] * n["t"] * (cpu.flash_bytes - 4 * (n["q"] + n.get("o", 0)))


def _mask_bytes(entry: Entry, _: dict[str, int | float], cpu: CpuKernels) -> float:
    each = {"dropout_masks": cpu.compute_bytes, "adapter_dropout_masks": cpu.adapter_mask_bytes}
    return entry.bytes * (each.get(entry.name, 1) - 1)


def _gelu_bytes(entry: Entry, n: dict[str, int | float], cpu: CpuKernels) -> float:
    """Two fp32 tensors and an fp32 power less: four 16-bit tensors in all."""
    widened = cpu.widens_gelu and entry.name in LAYER_ENTRIES
    return -3 * (4 - cpu.compute_bytes) * n["L"] * n["t"] * n["i"] if widened and "i" in n else 0


def _statistics_bytes(entry: Entry, n: dict[str, int | float], cpu: CpuKernels) -> float:
    if not cpu.half_statistics:
        return 0
    norms = (
        cpu.norms * n.get("L", 1) if entry.name in LAYER_ENTRIES else 1 if entry.name == "final_norm" else 0
    )
    return -2 * 2 * norms * n.get("t", 0)


ADJUSTMENTS: Final[dict[str, Amount]] = {
    "scores_never_made": _score_bytes,
    "keys_not_repeated": _attention_bytes,
    "masks_as_wide_as_tensors": _mask_bytes,
    "gelu_not_widened": _gelu_bytes,
    "statistics_in_16_bit": _statistics_bytes,
}
"""By reason: what a CPU kernel keeps more (or, negative, less) of one entry."""


def on_cpu(entries: Iterable[Entry], cpu: CpuKernels) -> tuple[Entry, ...]:
    """The entries with the bytes that CPU kernels give them; those that vanish are left out."""
    adjusted = (
        entry._replace(bytes=entry.bytes + sum(adjustments(entry, cpu).values())) for entry in entries
    )
    return tuple(entry for entry in adjusted if entry.bytes)


def adjustments(entry: Entry, cpu: CpuKernels) -> dict[str, int]:
    """What is adjusted of one entry, by reason; empty for most."""
    symbols = dict(entry.symbols)
    amounts = {reason: round(amount(entry, symbols, cpu)) for reason, amount in ADJUSTMENTS.items()}
    return {reason: size for reason, size in amounts.items() if size}
