"""Lays a prediction beside a measurement: by phase, category, kind and counting layer. Pure.

A residual is measured minus predicted. Both sides are ledgers, so nothing is converted; what the two call by
different names is brought together in `BUNDLES`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from planner.ledger import Category, Entry, Layer, Ledger, Phase
from planner.model import model_from_config
from planner.scenario import Scenario
from profiler.cpu_kernels import CpuKernels, adjustments, cpu_kernels, on_cpu
from profiler.report import Report

CLOSE_FRAC: Final = 0.01
"""Two figures this close count as equal: nothing needs explaining."""

NOT_ON_CPU: Final[dict[str, str]] = {
    "cublas_workspaces": "cuda_library",
    "communication_buffers": "several_devices",
}
"""Predicted entries that only a CUDA device has, with the reason; a CPU measurement leaves them out."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What formula and tracker call by different names.

    Attributes:
        name: Stable id.
        category: Where it is stacked.
        predicted: Names of predicted entries.
        measured: Names of measured groups.
    """

    name: str
    category: Category
    predicted: frozenset[str]
    measured: frozenset[str]


def _bundle(name: str, category: Category, predicted: str, measured: str) -> Bundle:
    return Bundle(name, category, frozenset(predicted.split()), frozenset(measured.split()))


BUNDLES: Final = (
    _bundle(
        "parameters",
        Category.WEIGHTS,
        "embedding_weights layer_weights expert_weights head_weights other_weights adapter_weights",
        "parameters",
    ),
    _bundle("buffers", Category.WEIGHTS, "", "buffers"),
    _bundle("cast_weights", Category.WEIGHTS, "autocast_weights autocast_head", "cast_weights"),
    _bundle(
        "gradients",
        Category.GRADIENTS,
        "gradients expert_gradients tied_gradients",
        "gradients gradient_temporaries",
    ),
    _bundle(
        "optimizer_states",
        Category.OPTIMIZER,
        "optimizer_states expert_optimizer_states",
        "exp_avg exp_avg_sq momentum_buffer row_var col_var variance step",
    ),
    _bundle(
        "step_temporary",
        Category.OPTIMIZER,
        "step_temporary expert_step_temporary",
        "optimizer_temporaries",
    ),
    _bundle(
        "saved_activations",
        Category.ACTIVATIONS,
        "saved_activations attention_scores checkpointed_inputs final_norm head_input attention_mask dropout_masks "
        "rotary_tables token_ids pixel_values tower_activations tower_ends projector tower_forward picture_outputs",
        "saved_activations inputs",
    ),
    _bundle("kept_cache", Category.ACTIVATIONS, "kept_cache kept_embedding", "kept_outputs"),
    _bundle(
        "recomputed_layer",
        Category.ACTIVATIONS,
        "recomputed_layer recomputed_scores",
        "recomputed_activations",
    ),
    _bundle(
        "activation_gradients",
        Category.ACTIVATIONS,
        "layer_gradients stream_gradient forward_temporary",
        "activation_gradients forward_temporaries",
    ),
)


@dataclass(frozen=True, slots=True)
class Row:
    """Two figures side by side.

    Attributes:
        name: Category, bundle, entry or layer.
        category: Category it belongs to, None for a total.
        predicted_bytes: None = not predicted.
        measured_bytes: None = not measured.
    """

    name: str
    category: Category | None
    predicted_bytes: int | None
    measured_bytes: int | None

    @property
    def residual_bytes(self) -> int | None:
        """Measured minus predicted, None if either is not known."""
        if self.predicted_bytes is None or self.measured_bytes is None:
            return None
        return self.measured_bytes - self.predicted_bytes

    @property
    def residual_frac(self) -> float | None:
        """The residual as a share of what was measured; None if it cannot be said."""
        return (
            None
            if not self.measured_bytes or self.residual_bytes is None
            else self.residual_bytes / self.measured_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseComparison:
    """One phase.

    Attributes:
        phase: Which.
        total: Both totals.
        categories: By category, in stacking order.
        bundles: By kind, largest residual first.
        explains: Name of the bundle with the largest residual, empty where the totals are close.
        left_out: (entry, bytes, reason) of predicted entries that this device cannot have.
        adjusted: (entry, bytes, reason) of what its kernels keep more, or (negative) less, of an entry; the
            predicted figures have it in.
    """

    phase: Phase
    total: Row
    categories: tuple[Row, ...]
    bundles: tuple[Row, ...]
    explains: str
    left_out: tuple[tuple[str, int, str], ...] = ()
    adjusted: tuple[tuple[str, int, str], ...] = ()

    @property
    def is_close(self) -> bool:
        """Whether the totals agree."""
        return self.explains == ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A whole report beside a whole prediction.

    Attributes:
        phases: Phases that both have, in order.
        layers: Peaks by counting layer (allocated, reserved, process, device); unknown ones with None.
    """

    phases: tuple[PhaseComparison, ...]
    layers: tuple[Row, ...]

    @property
    def is_close(self) -> bool:
        """Whether every phase agrees."""
        return all(phase.is_close for phase in self.phases)


def compare(predicted: Ledger, report: Report) -> Comparison:
    """Compare a device's predicted ledger with a report.

    Args:
        predicted: Ledger of the one device that was measured.
        report: The measurement. On CPU only live tensors are compared.
    """
    measured = report.ledger()
    device_is_cpu = report.environment.device == "cpu"
    kernels = _kernels(report) if device_is_cpu else None
    expected = as_on_cpu(predicted, kernels)
    return Comparison(
        phases=tuple(
            replace(compared, adjusted=_adjusted(predicted, compared.phase, kernels))
            for compared in compare_ledgers(expected, measured, on_cpu=device_is_cpu)
        ),
        layers=_layers(expected, report, on_cpu=device_is_cpu),
    )


def compare_ledgers(predicted: Ledger, found: Ledger, *, on_cpu: bool = False) -> tuple[PhaseComparison, ...]:
    """Lay two ledgers of one device side by side, phase by phase, by what PyTorch counts as allocated.

    Args:
        predicted: What the formulas say.
        found: What was traced or measured.
        on_cpu: Whether what only a CUDA device has is left out of the prediction.
    """
    phases = [phase for phase in predicted.phases if phase in found.phases]
    return tuple(_phase(phase, predicted, found, on_cpu=on_cpu) for phase in phases)


def as_on_cpu(predicted: Ledger, kernels: CpuKernels | None) -> Ledger:
    """The ledger as CPU kernels would have it; the same one where they are not known."""
    return predicted if kernels is None else Ledger(on_cpu(predicted.entries, kernels), predicted.phases)


def _kernels(report: Report) -> CpuKernels | None:
    """The facts of the measured job, None where its report does not tell them."""
    try:
        scenario = Scenario.model_validate(report.scenario)
        return cpu_kernels(scenario, model_from_config(report.config))
    except ValueError:
        return None


def _adjusted(
    predicted: Ledger, phase: Phase, kernels: CpuKernels | None
) -> tuple[tuple[str, int, str], ...]:
    if kernels is None:
        return ()
    return tuple(
        (entry.name, size, reason)
        for entry in predicted.alive(phase)
        for reason, size in adjustments(entry, kernels).items()
    )


def comparable(predicted: Ledger, phase: Phase, *, on_cpu: bool) -> tuple[Entry, ...]:
    """Predicted entries that a measurement of live tensors can show."""
    allocated = (entry for entry in predicted.alive(phase) if entry.layer is Layer.ALLOCATED)
    return tuple(entry for entry in allocated if not (on_cpu and entry.name in NOT_ON_CPU))


def _phase(phase: Phase, predicted: Ledger, measured: Ledger, *, on_cpu: bool) -> PhaseComparison:
    expected = comparable(predicted, phase, on_cpu=on_cpu)
    found = [entry for entry in measured.alive(phase) if entry.layer is Layer.ALLOCATED]
    total = Row("total", None, _sum(expected), _sum(found))
    bundles = _bundle_rows(expected, found)
    close = abs(total.residual_frac or 0.0) <= CLOSE_FRAC
    return PhaseComparison(
        phase=phase,
        total=total,
        categories=_category_rows(expected, found),
        bundles=bundles,
        explains="" if close or not bundles else bundles[0].name,
        left_out=_left_out(predicted, phase) if on_cpu else (),
    )


def _left_out(predicted: Ledger, phase: Phase) -> tuple[tuple[str, int, str], ...]:
    return tuple(
        (entry.name, entry.bytes, NOT_ON_CPU[entry.name])
        for entry in predicted.alive(phase)
        if entry.layer is Layer.ALLOCATED and entry.name in NOT_ON_CPU
    )


def _category_rows(expected: Iterable[Entry], found: Iterable[Entry]) -> tuple[Row, ...]:
    before, after = list(expected), list(found)
    rows = (
        Row(
            category.value,
            category,
            _sum(entry for entry in before if entry.category is category),
            _sum(entry for entry in after if entry.category is category),
        )
        for category in Category
    )
    return tuple(row for row in rows if row.predicted_bytes or row.measured_bytes)


def _bundle_rows(expected: Iterable[Entry], found: Iterable[Entry]) -> tuple[Row, ...]:
    totals: dict[tuple[str, Category], list[int]] = {}
    for side, entries in enumerate((expected, found)):
        for entry in entries:
            totals.setdefault(_bundle_of(entry, side), [0, 0])[side] += entry.bytes
    rows = (Row(name, category, sums[0], sums[1]) for (name, category), sums in totals.items())
    return tuple(sorted(rows, key=lambda row: -abs(row.residual_bytes or 0)))


def _bundle_of(entry: Entry, side: int) -> tuple[str, Category]:
    """The bundle an entry belongs to. Logits, and what has no bundle of its own, count by category."""
    for bundle in BUNDLES:
        names = bundle.measured if side else bundle.predicted
        if entry.category is bundle.category and entry.name in names:
            return bundle.name, bundle.category
    return _REST.get(entry.category, entry.category.value), entry.category


_REST: Final = {Category.ACTIVATIONS: "saved_activations"}


def _sum(entries: Iterable[Entry]) -> int:
    return sum(entry.bytes for entry in entries)


def _layers(predicted: Ledger, report: Report, *, on_cpu: bool) -> tuple[Row, ...]:
    allocated = max((figures.peak_allocated_bytes for figures in report.phases), default=None)
    reserved = max((figures.peak_reserved_bytes or 0 for figures in report.phases), default=0) or None
    if on_cpu:
        expected = max(_sum(comparable(predicted, phase, on_cpu=True)) for phase in predicted.phases)
        return (Row(Layer.ALLOCATED.value, None, expected, allocated),)
    measured = (allocated, reserved, _process_bytes(report, reserved), report.readings.peak_bytes)
    return tuple(
        Row(layer.value, None, predicted.peak(layer)[1], value)
        for layer, value in zip(Layer, measured, strict=True)
    )


def _process_bytes(report: Report, reserved: int | None) -> int | None:
    """What the process takes: as the driver lists it, else its context and what the allocator holds."""
    readings = report.readings
    if readings.process_peak_bytes is not None:
        return readings.process_peak_bytes
    if reserved is None or readings.idle_bytes is None or readings.before_bytes is None:
        return None
    return reserved + max(0, readings.idle_bytes - readings.before_bytes)
