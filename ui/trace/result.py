"""A trace beside the plan of the same question, as the page shows it. Pure.

Differences are prediction less trace, as beside a measurement: positive says that too much was predicted.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from planner.ledger import Layer, Phase
from planner.plan_types import Plan
from profiler.allocator.settings import AllocatorSettings
from profiler.compare import PhaseComparison, compare_ledgers
from profiler.trace.answer import Answer, answer
from profiler.trace.record import Trace
from profiler.trace.request import capacity_bytes
from ui.document import Document, canonical
from ui.measure.result import EQUAL_FRAC, Pair, total
from ui.names import card_name
from ui.trace.cards import Card, CardRow, card_rows, cards_of
from ui.trace.question import Question

MOST_RESULTS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Everything the view draws from.

    Attributes:
        document: The question.
        plan: Its answer by formulas.
        trace: The traced run.
        answer: What the allocator makes of it, without a limit.
        phases: Both ledgers side by side.
        peak: The fullest traced phase.
        allocated: `max_memory_allocated`, both.
        reserved: `max_memory_reserved`, both.
        settings: The allocator's.
        capacity_bytes: What the question's card can give the allocator, None if its size is not known.
        cards: The cards round the smallest that it runs on, and the question's own.
    """

    document: Document
    plan: Plan
    trace: Trace
    answer: Answer
    phases: tuple[PhaseComparison, ...]
    peak: Phase
    allocated: Pair
    reserved: Pair
    settings: AllocatorSettings
    capacity_bytes: int | None
    cards: tuple[CardRow, ...]

    @property
    def own(self) -> CardRow | None:
        """The question's own card, None if its size is not known."""
        return next((row for row in self.cards if row.is_own), None)

    @property
    def smallest(self) -> CardRow | None:
        """The smallest card that it runs on, None if it runs on none."""
        return next((row for row in self.cards if row.is_smallest), None)

    @property
    def expected(self) -> Phase:
        """The phase that the formulas make the fullest by what PyTorch counts as allocated."""
        return self.plan.worst.ledger.peak(Layer.ALLOCATED)[0]

    def phase(self, phase: Phase) -> PhaseComparison | None:
        """The comparison of one phase."""
        return next((each for each in self.phases if each.phase is phase), None)

    def parts(self, phase: Phase) -> tuple[Pair, ...]:
        """Both sides by category in a phase, in stacking order."""
        compared = self.phase(phase)
        return (
            ()
            if compared is None
            else tuple(
                Pair(
                    name=row.name,
                    category=row.category,
                    predicted_bytes=row.predicted_bytes,
                    measured_bytes=row.measured_bytes,
                )
                for row in compared.categories
            )
        )

    def phase_pair(self, phase: Phase) -> Pair:
        """Both sides of a whole phase."""
        return replace(total(self.parts(phase)), name=phase.value)

    def is_equal(self, pair: Pair) -> bool:
        """Whether a difference is small beside the whole peak."""
        return abs(pair.gap_bytes or 0) <= EQUAL_FRAC * self.answer.peak_allocated_bytes


def result_of(question: Question, trace: Trace) -> Result | None:
    """Lay a trace beside the plan of its question; None for a trace without a single phase."""
    plan, settings = question.plan, question.asked.settings
    free = answer(trace, settings)
    if free.fullest is None:
        return None
    ledger = plan.worst.ledger
    cards = cards_of(plan, trace.target.compute_capability)
    return Result(
        document=question.document,
        plan=plan,
        trace=trace,
        answer=free,
        phases=compare_ledgers(ledger, free.ledger()),
        peak=Phase(free.fullest.phase),
        allocated=_pair(Layer.ALLOCATED, plan, free.peak_allocated_bytes),
        reserved=_pair(Layer.RESERVED, plan, free.peak_reserved_bytes),
        settings=settings,
        capacity_bytes=question.asked.capacity_bytes,
        cards=card_rows(trace, settings, free, cards, _own(plan)),
    )


def _pair(layer: Layer, plan: Plan, traced_bytes: int) -> Pair:
    predicted = plan.worst.ledger.peak(layer)[1]
    return Pair(name=layer.value, predicted_bytes=predicted, measured_bytes=traced_bytes)


def _own(plan: Plan) -> Card | None:
    device, capacity = plan.worst, capacity_bytes(plan.worst)
    if device.usable_bytes is None or capacity is None:
        return None
    return Card(name=card_name(device.gpu_name), usable_bytes=device.usable_bytes, capacity_bytes=capacity)


class Results:
    """The results looked at last: drawn again at every run of the page. Safe to use from any thread."""

    def __init__(self, most: int = MOST_RESULTS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._results: OrderedDict[str, Result | None] = OrderedDict()

    def get(self, document: Document, trace_key: str, make: Callable[[], Result | None]) -> Result | None:
        """The result of a question and a trace, made by `make` where it is not kept."""
        key = trace_key + canonical(document)
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        made = make()
        with self._lock:
            self._results[key] = made
            while len(self._results) > self._most:
                self._results.popitem(last=False)
        return made
