"""What a trace says: peaks by phase with their owners, the timeline, the ledger, and where a card runs out."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, cast

from planner.ledger import Category, Ledger
from profiler.allocator.replay import RanOut, Replay, replay
from profiler.allocator.settings import AllocatorSettings
from profiler.documents import MeasuredPhase
from profiler.report import Group, PhaseFigures, StorageNote, ledger_of
from profiler.trace.division import COMMUNICATION
from profiler.trace.record import Trace
from profiler.trace.spans import Spans
from profiler.trace.workspaces import WORKSPACE
from profiler.worker.grouping import ModelShapes, place
from profiler.worker.storages import Storage

TRACED: Final = "traced"
"""Stands where a formula and a reference stand in a predicted entry."""

NUM_LARGEST: Final = 20
MAX_POINTS: Final = 600
PHASES: Final[tuple[MeasuredPhase, ...]] = ("rest", "forward", "loss", "backward", "optimizer_step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The timeline at one event, the fullest of its stretch.

    Attributes:
        event: Position in the events.
        step: Step.
        phase: Phase.
        allocated_bytes: Blocks in use.
        reserved_bytes: Segments held.
        categories: Live bytes by category.
    """

    event: int
    step: int
    phase: str
    allocated_bytes: int
    reserved_bytes: int
    categories: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Where a card ran out.

    Attributes:
        at: The allocator's figures.
        step: Step.
        phase: Phase.
        module: Module that asked.
        op: Operator that asked.
    """

    at: RanOut
    step: int
    phase: str
    module: str
    op: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one allocator on one card makes of a trace. Peaks are those of the last step unless said otherwise.

    Attributes:
        phases: The phases of the last step, each at its fullest moment.
        peak_allocated_bytes: `max_memory_allocated` over the whole run.
        peak_reserved_bytes: `max_memory_reserved` over the whole run.
        peak_tensor_bytes: Live storages, without rounding, over the whole run.
        phase: Fullest phase of the last step by allocated bytes; the phase it ran out in if it ran out.
        ran_out: Where the card ran out, None if the run came to its end.
        retries: How often everything cached was given back.
        timeline: The whole run, at most `MAX_POINTS` points.
    """

    phases: tuple[PhaseFigures, ...]
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    peak_tensor_bytes: int
    phase: str
    ran_out: Stop | None
    retries: int
    timeline: tuple[Point, ...]

    def figures(self, phase: str) -> PhaseFigures | None:
        """The figures of a phase, None if it was not reached."""
        return next((figures for figures in self.phases if figures.phase == phase), None)

    @property
    def fullest(self) -> PhaseFigures | None:
        """The fullest phase of the last step, None if the run never came there."""
        return max(self.phases, key=lambda figures: figures.peak_allocated_bytes, default=None)

    def categories(self) -> dict[str, int]:
        """Allocated bytes by category at the fullest moment, largest first."""
        totals: dict[str, int] = {}
        for group in self.fullest.groups if self.fullest else ():
            if group.layer == "allocated":
                totals[group.category] = totals.get(group.category, 0) + group.bytes
        return dict(sorted(totals.items(), key=lambda item: -item[1]))

    def ledger(self) -> Ledger:
        """The trace as a ledger: one entry per kind and size, alive where it had that size."""
        return ledger_of(self.phases, TRACED, lambda group: group.name.endswith("_backward_workspace"))


def answer(
    trace: Trace,
    settings: AllocatorSettings,
    capacity_bytes: int | None = None,
    total_bytes: int | None = None,
) -> Answer:
    """Replay a trace and find its owners.

    Args:
        trace: The run.
        settings: The allocator's.
        capacity_bytes: What the card can give the allocator, None for no limit.
        total_bytes: Memory of the whole card, None: the capacity.
    """
    seen = replay(trace.requests(), settings, capacity_bytes, total_bytes)
    reading = _Reading(trace, seen)
    figures = reading.figures()
    fullest = max(figures, key=lambda one: one.peak_allocated_bytes, default=None)
    stop = reading.stop()
    phase = stop.phase if stop is not None else fullest.phase if fullest is not None else ""
    return Answer(
        phases=figures,
        peak_allocated_bytes=seen.peak_allocated_bytes,
        peak_reserved_bytes=seen.peak_reserved_bytes,
        peak_tensor_bytes=reading.peak_tensor_bytes,
        phase=phase,
        ran_out=stop,
        retries=seen.retries,
        timeline=reading.timeline(),
    )


class _Reading:
    """One pass over a replayed trace."""

    def __init__(self, trace: Trace, seen: Replay) -> None:
        self._trace = trace
        self._seen = seen
        self._storages = trace.storages.storages()
        self._shapes = trace.shapes()
        self._spans = Spans(trace.marks)
        self._num_events = len(seen.allocated_bytes)
        self.peak_tensor_bytes = self._peak_tensors()

    def figures(self) -> tuple[PhaseFigures, ...]:
        """The phases of the last step in order."""
        best = self._fullest()
        alive = dict(self._alive_at(sorted(set(best.values()))))
        return tuple(self._phase(phase, best[phase], alive[best[phase]]) for phase in PHASES if phase in best)

    def _fullest(self) -> dict[str, int]:
        """By phase of the last step: the event after which most was allocated."""
        best: dict[str, int] = {}
        allocated = self._seen.allocated_bytes
        for phase, span in self._spans.spans(self._trace.steps, self._num_events):
            event = max(span, key=allocated.__getitem__)
            if phase not in best or allocated[event] > allocated[best[phase]]:
                best[phase] = event
        return best

    def _alive_at(self, wanted: list[int]) -> Iterator[tuple[int, list[int]]]:
        """Numbers of the storages alive after each of the wanted events, which are in order."""
        alive: dict[int, None] = {}
        ends = iter(wanted)
        end = next(ends, None)
        for index, event in enumerate(self._trace.events):
            if event >= 0:
                alive[event] = None
            else:
                alive.pop(-event - 1, None)
            if index == end:
                yield index, list(alive)
                end = next(ends, None)

    def _phase(self, phase: str, event: int, alive: list[int]) -> PhaseFigures:
        allocated, reserved = self._seen.allocated_bytes[event], self._seen.reserved_bytes[event]
        storages = [self._storages[number] for number in alive]
        span = [s for p, s in self._spans.spans(self._trace.steps, self._num_events) if p == phase]
        return PhaseFigures(
            phase=cast("MeasuredPhase", phase),
            peak_allocated_bytes=allocated,
            peak_reserved_bytes=max(self._seen.reserved_bytes[index] for one in span for index in one),
            groups=tuple(_groups(storages, self._shapes, phase, self._trace.steps, allocated, reserved)),
            largest=tuple(_largest(storages, self._shapes, phase, self._trace.steps)),
        )

    def stop(self) -> Stop | None:
        """Where the card ran out, by name."""
        at = self._seen.ran_out
        if at is None:
            return None
        mark = self._spans.at(at.event)
        storage = self._storages[self._trace.events[at.event]]
        return Stop(
            at=at,
            step=0 if mark is None else mark.step,
            phase="load" if mark is None else mark.phase,
            module=storage.module,
            op=storage.op,
        )

    def timeline(self) -> tuple[Point, ...]:
        """The fullest event of each stretch, with what was alive by category. Every phase has its own stretches."""
        allocated, reserved = self._seen.allocated_bytes, self._seen.reserved_bytes
        chosen = [max(stretch, key=allocated.__getitem__) for stretch in self._stretches()]
        points = []
        for event, totals in self._totals_at(chosen):
            mark = self._spans.at(event)
            points.append(
                Point(
                    event=event,
                    step=0 if mark is None else mark.step,
                    phase="load" if mark is None else mark.phase,
                    allocated_bytes=allocated[event],
                    reserved_bytes=reserved[event],
                    categories=totals,
                )
            )
        return tuple(points)

    def _stretches(self) -> Iterator[range]:
        """The events in order, cut where a phase begins and then into equally many pieces, `MAX_POINTS` in all."""
        starts = {mark.event for mark in self._trace.marks if 0 < mark.event < self._num_events}
        cuts = sorted({0, *(starts if len(starts) < MAX_POINTS else ()), self._num_events})
        pieces = max(MAX_POINTS // max(len(cuts) - 1, 1), 1)
        for start, end in pairwise(cuts):
            length = -(-(end - start) // pieces)
            yield from (range(at, min(at + length, end)) for at in range(start, end, length))

    def _totals_at(self, wanted: list[int]) -> Iterator[tuple[int, tuple[tuple[str, int], ...]]]:
        names = [_place(storage, self._shapes, "", storage.born_in_step)[0] for storage in self._storages]
        totals = dict.fromkeys((category.value for category in Category), 0)
        ends = iter(wanted)
        end = next(ends, None)
        sizes = self._trace.storages.bytes
        for index, event in enumerate(self._trace.events[: self._num_events]):
            number = event if event >= 0 else -event - 1
            totals[names[number]] += sizes[number] if event >= 0 else -sizes[number]
            if index == end:
                yield index, tuple((name, size) for name, size in totals.items() if size)
                end = next(ends, None)

    def _peak_tensors(self) -> int:
        live = peak = 0
        sizes = self._trace.storages.bytes
        for event in self._trace.events[: self._num_events]:
            live += sizes[event] if event >= 0 else -sizes[-event - 1]
            peak = max(peak, live)
        return peak


def _place(storage: Storage, shapes: ModelShapes, phase: str, step: int) -> tuple[str, str]:
    """Category and name; workspaces of libraries stand where the planner puts them."""
    if storage.kind == WORKSPACE:
        return "cuda_context", storage.detail
    if storage.kind == COMMUNICATION:
        return "communication", storage.detail
    return place(storage, shapes, phase, step)


def _groups(
    storages: list[Storage], shapes: ModelShapes, phase: str, step: int, allocated: int, reserved: int
) -> Iterator[Group]:
    """What is alive by kind, what rounding adds, and what the allocator holds in reserve."""
    totals: dict[tuple[str, str], list[int]] = {}
    for storage in storages:
        total = totals.setdefault(_place(storage, shapes, phase, step), [0, 0])
        total[0] += storage.bytes
        total[1] += 1
    for (category, name), (size, number) in sorted(
        totals.items(), key=lambda item: (item[0][0], -item[1][0])
    ):
        yield _group(category, name, size, number=number)
    rounding = allocated - sum(size for size, _ in totals.values())
    if rounding > 0:
        yield _group("allocator_cache", "block_rounding", rounding)
    if reserved > allocated:
        yield _group("allocator_cache", "cache", reserved - allocated, layer="reserved")


def _group(category: str, name: str, size: int, *, number: int = 0, layer: str = "allocated") -> Group:
    return Group.model_validate(
        {"category": category, "name": name, "bytes": size, "num_storages": number, "layer": layer}
    )


def _largest(storages: list[Storage], shapes: ModelShapes, phase: str, step: int) -> Iterator[StorageNote]:
    for storage in sorted(storages, key=lambda one: -one.bytes)[:NUM_LARGEST]:
        category, name = _place(storage, shapes, phase, step)
        yield StorageNote.model_validate(
            {
                "bytes": storage.bytes,
                "category": category,
                "name": name,
                "module": storage.module,
                "op": storage.op,
                "shape": storage.shape,
                "dtype": storage.dtype,
                "made_in": storage.phase,
            }
        )
