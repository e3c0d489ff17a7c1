"""A measurement beside its prediction, as the page shows it. Pure.

Differences here are prediction less measurement, as in the scores: positive says that too much was predicted.
"""

from dataclasses import dataclass, replace
from typing import Final

from planner.ledger import Category, Layer, Phase
from planner.plan_types import Plan
from profiler.compare import Comparison, PhaseComparison, compare
from profiler.compare import Row as Compared
from profiler.report import Report
from ui.answers import answer
from ui.document import Document

ELSE: Final = "else"
MOST_GAPS: Final = 6
EQUAL_FRAC: Final = 0.001
GOOD_FRAC: Final = 0.01
FAIR_FRAC: Final = 0.1
_MEASURED_LAYERS: Final = (Layer.PROCESS, Layer.RESERVED, Layer.ALLOCATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two figures with a name.

    Attributes:
        name: Bundle, category or layer; `else` for what was drawn together.
        category: For its colour; None for a sum.
        predicted_bytes: None = not predicted.
        measured_bytes: None = not measured.
    """

    name: str
    category: Category | None = None
    predicted_bytes: int | None
    measured_bytes: int | None

    @property
    def gap_bytes(self) -> int | None:
        """Prediction less measurement, None if either is not known."""
        if self.predicted_bytes is None or self.measured_bytes is None:
            return None
        return self.predicted_bytes - self.measured_bytes

    @property
    def error_frac(self) -> float | None:
        """Prediction over measurement less one, None if it cannot be said."""
        return (
            None
            if not self.measured_bytes or self.gap_bytes is None
            else self.gap_bytes / self.measured_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Everything the page draws from.

    Attributes:
        report: The measurement.
        plan: The plan of the very question that was measured, None where it cannot be planned any more.
        comparison: Both, laid side by side; None without a plan.
        peak: The fullest measured phase, None if no phase was reached.
        expected: The phase that the plan expected to be the fullest, of those that were measured.
        headline: The outermost figure that was measured, beside its prediction.
        headline_layer: Who counts it.
        gaps: What explains the difference at the peak, largest first.
        parts: By category at the peak, in stacking order.
        layers: Allocated, reserved, process, device.
    """

    report: Report
    plan: Plan | None
    comparison: Comparison | None
    peak: Phase | None
    expected: Phase | None
    headline: Pair
    headline_layer: Layer
    gaps: tuple[Pair, ...]
    parts: tuple[Pair, ...]
    layers: dict[Layer, Pair]

    @property
    def on_cpu(self) -> bool:
        """Whether it ran on a processor, where only tensors are counted."""
        return self.report.environment.device == "cpu"

    @property
    def in_band(self) -> bool | None:
        """Whether the process is inside the plan's band; None where there is no band or no such reading."""
        band = self.plan.worst.band if self.plan is not None else None
        measured = self.layers[Layer.PROCESS].measured_bytes
        if band is None or measured is None or self.on_cpu:
            return None
        return band.low_bytes <= measured <= band.high_bytes

    def phase(self, phase: Phase) -> PhaseComparison | None:
        """The comparison of one phase."""
        found = self.comparison.phases if self.comparison is not None else ()
        return next((each for each in found if each.phase is phase), None)


def stands_out(pair: Pair, pairs: tuple[Pair, ...]) -> bool:
    """Whether a part is far off, and by enough to matter beside the sum of all."""
    matters = abs(pair.gap_bytes or 0) > EQUAL_FRAC * (total(pairs).measured_bytes or 0)
    return matters and (pair.error_frac is None or abs(pair.error_frac) > FAIR_FRAC)


def result_of(report: Report) -> Result:
    """Lay a report beside the plan of its own question."""
    plan = _plan(report)
    comparison = compare(plan.worst.ledger, report) if plan is not None else None
    fullest = report.peak()
    peak = Phase(fullest.phase) if fullest is not None else None
    layers = _layers(report, comparison)
    top = next(
        (layer for layer in _MEASURED_LAYERS if layers[layer].measured_bytes is not None), Layer.ALLOCATED
    )
    at_peak = (
        next((each for each in comparison.phases if each.phase is peak), None)
        if comparison is not None
        else None
    )
    outside = _outside_tensors(layers)
    return Result(
        report=report,
        plan=plan,
        comparison=comparison,
        peak=peak,
        expected=_expected(comparison),
        headline=layers[top],
        headline_layer=top,
        gaps=_gaps(at_peak, outside),
        parts=_parts(at_peak, outside),
        layers=layers,
    )


def question_of(report: Report) -> Document:
    """The question that a report answers, with the model's config where only that says what ran."""
    document: Document = dict(report.scenario)
    if answer(document).plan is None and report.config:
        document["model"] = {"config": dict(report.config)}
    return document


def _plan(report: Report) -> Plan | None:
    plan = answer(question_of(report)).plan
    return plan if plan is not None and plan.resolved.is_training and len(plan.devices) == 1 else None


def _expected(comparison: Comparison | None) -> Phase | None:
    if comparison is None or not comparison.phases:
        return None
    return max(comparison.phases, key=lambda each: each.total.predicted_bytes or 0).phase


def _layers(report: Report, comparison: Comparison | None) -> dict[Layer, Pair]:
    rows = {row.name: row for row in comparison.layers} if comparison is not None else {}
    measured = {
        Layer.ALLOCATED: max((figures.peak_allocated_bytes for figures in report.phases), default=None),
        Layer.RESERVED: max((figures.peak_reserved_bytes or 0 for figures in report.phases), default=0)
        or None,
        Layer.PROCESS: report.readings.process_peak_bytes,
        Layer.DEVICE: report.readings.peak_bytes,
    }
    found = {}
    for layer in Layer:
        row: Compared | None = rows.get(layer.value)
        found[layer] = Pair(
            name=layer.value,
            predicted_bytes=row.predicted_bytes if row is not None else None,
            measured_bytes=row.measured_bytes if row is not None else measured[layer],
        )
    return found


def _outside_tensors(layers: dict[Layer, Pair]) -> list[Pair]:
    """What each layer adds to the one inside it, where both were predicted and measured."""
    steps = (
        ("cache", Layer.ALLOCATED, Layer.RESERVED, Category.ALLOCATOR),
        ("context", Layer.RESERVED, Layer.PROCESS, Category.CONTEXT),
    )
    found = []
    for name, inner, outer, category in steps:
        predicted = _less(layers[outer].predicted_bytes, layers[inner].predicted_bytes)
        measured = _less(layers[outer].measured_bytes, layers[inner].measured_bytes)
        if predicted is not None and measured is not None:
            found.append(
                Pair(name=name, category=category, predicted_bytes=predicted, measured_bytes=measured)
            )
    return found


def _less(outer: int | None, inner: int | None) -> int | None:
    return None if outer is None or inner is None else outer - inner


def _gaps(at_peak: PhaseComparison | None, outside: list[Pair]) -> tuple[Pair, ...]:
    """Kinds by the size of their difference, then by their own; what is left is one row."""
    if at_peak is None:
        return ()
    pairs = [*map(_pair, at_peak.bundles), *outside]
    pairs.sort(key=lambda pair: (-abs(pair.gap_bytes or 0), -(pair.measured_bytes or 0)))
    shown, rest = pairs[:MOST_GAPS], pairs[MOST_GAPS:]
    if len(rest) == 1:
        shown, rest = pairs, []
    return (*shown, replace(total(tuple(rest)), name=ELSE)) if rest else tuple(shown)


def _parts(at_peak: PhaseComparison | None, outside: list[Pair]) -> tuple[Pair, ...]:
    if at_peak is None:
        return ()
    found: list[Pair] = []
    for category in Category:
        pairs = [pair for pair in (*map(_pair, at_peak.categories), *outside) if pair.category is category]
        if pairs:
            found.append(replace(total(tuple(pairs)), name=category.value, category=category))
    return tuple(found)


def _pair(row: Compared) -> Pair:
    return Pair(
        name=row.name,
        category=row.category,
        predicted_bytes=row.predicted_bytes,
        measured_bytes=row.measured_bytes,
    )


def total(pairs: tuple[Pair, ...]) -> Pair:
    """The sum of some pairs."""
    return Pair(
        name="sum",
        predicted_bytes=sum(pair.predicted_bytes or 0 for pair in pairs),
        measured_bytes=sum(pair.measured_bytes or 0 for pair in pairs),
    )
