"""The search: for every rig the fastest plan that fits, then the best of all by cost, time and number of cards.

On given machines the hour has one price, so the fastest plan is the cheapest too. Times of all plans of a rig come as
one array; in their order the first that fits is the answer, and no slower one can better it. That makes the result that
of trying every plan, at the price of a few ledgers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.checks.hardware import NEEDS
from planner.hardware import Gpu, Tables
from planner.issues import Issue, ScenarioError, Severity
from planner.model.spec import ModelSpec
from planner.placement import place
from planner.resolve import resolve
from planner.scenario import Scenario
from planner.search.memory import Key, Memory
from planner.search.probes import REFERENCE_ID, placed, with_network
from planner.search.rigs import Rig
from planner.search.space import MICRO_BATCHES, Variant, own_settings
from planner.search.timing import Clock, Floats, Grid
from planner.search.types import Choice, Limits
from planner.throughput.types import Unknown
from planner.training.ledgers import host_need
from planner.units import gib
from planner.validation import check

LACKS: Final = frozenset({"dtype_unsupported", "attention_unsupported", "runtime_not_on_this_card"})
"""Warnings that rule a card out for a format."""
NEAREST_TRIED: Final = 4
"""Ledgers made to say by how much a rig is short."""
PIPELINES_LATER: Final = 0.5
"""Share by which the bound of a plan is raised for each further stage, to order plans by."""


@dataclass(frozen=True, slots=True)
class Best:
    """The answer of one rig.

    Attributes:
        key: Variant, copies, micro-batch; None where no plan fits.
        step_time_s: None where the speed is not known.
        missing: What the tables lack.
        plans: Plans of the rig.
        timed: Those whose time is known.
        settled: Those that needed no ledger.
        blocked: What the card has no hardware for, where that leaves no plan.
    """

    key: Key | None
    step_time_s: float | None = None
    missing: tuple[Unknown, ...] = ()
    plans: int = 0
    timed: int = 0
    settled: int = 0
    blocked: Issue | None = None


class Answers:
    """Answers of rigs, each asked once. Host memory counts only where the best plan needs any.

    Args:
        ask: What answers.
        offloads: Whether a variant keeps anything on the host.
    """

    def __init__(self, ask: Callable[[Rig], Best], offloads: NDArray[np.bool_]) -> None:
        self._ask, self._offloads = ask, offloads
        self._known: dict[tuple[object, ...], Best] = {}

    def __call__(self, rig: Rig) -> Best:
        """The answer of a rig."""
        found = self._once((*rig.cards, None), replace(rig, ram_bytes=None))
        if rig.ram_bytes is None or found.key is None or not self._offloads[found.key[0]]:
            return found
        return self._once((*rig.cards, rig.ram_bytes), rig)

    def _once(self, key: tuple[object, ...], rig: Rig) -> Best:
        if key not in self._known:
            self._known[key] = self._ask(rig)
        return self._known[key]

    @property
    def listed(self) -> list[Best]:
        """Every answer that was given."""
        return list(self._known.values())


class Engine:
    """Answers rigs one after the other; what they have in common is worked out once.

    Args:
        question: The job.
        variants: Ways to run it.
        model: Its model.
        tables: Cards, servers, constants, bands.
        limits: The constraints.
    """

    def __init__(
        self,
        question: Scenario,
        variants: Sequence[Variant],
        model: ModelSpec,
        tables: Tables,
        limits: Limits,
    ) -> None:
        self.variants, self.model, self.tables, self.limits = variants, model, tables, limits
        own = question.training.micro_batch
        self.batches = tuple(sorted({own, *MICRO_BATCHES}))
        self.clock = Clock(variants, model, tables, self.batches, limits.sequences)
        self.facts = self.clock.facts
        self.memory = Memory(variants, self.facts, model, tables, limits)
        self._gaps = _gaps(question, model, tables)
        self._own = own_settings(question)
        self._lacks: dict[tuple[int, str], Issue | None] = {}
        self._sound: dict[tuple[int, int, bool], bool] = {}
        self._host: dict[tuple[int, int], int] = {}

    def best(self, rig: Rig) -> Best:
        """The fastest plan of a rig that fits."""
        grid = self.grid(rig)
        if grid is None:
            return Best(None)
        usable, lacks = self._usable_rows(grid, rig.gpu)
        exists = (grid.accumulation > 0) & usable[:, None]
        plans = int(exists.sum())
        if not plans:
            return Best(None, blocked=lacks)
        roomy = exists & self._roomy(grid, rig.gpu)
        rows: NDArray[np.bool_] = np.any(roomy, axis=1)
        if not rows.any():
            return Best(None, plans=plans, settled=plans)
        grid, roomy = grid.of(rows), roomy[rows]
        times, missing = self.clock.times(grid, rig.gpu, rig.links, rig.devices)
        timed = int((roomy & np.isfinite(times)).sum())
        before = self.memory.ledgers
        known = timed > 0
        order = times if known else _work(grid)
        key = self._first(grid, order, roomy, rig)
        settled = plans - (self.memory.ledgers - before)
        if key is None:
            return Best(None, None, missing, plans, timed, settled)
        row = int(np.flatnonzero(grid.rows == key[0])[0])
        found = float(times[row, self.batches.index(key[2])]) if known else None
        return Best(key, found, () if known else missing, plans, timed, settled)

    def best_by_variant(self, rig: Rig) -> Best:
        """The first variant that fits, whatever others take, with its fastest micro-batch."""
        grid = self.grid(rig)
        if grid is None:
            return Best(None)
        usable, lacks = self._usable_rows(grid, rig.gpu)
        times, missing = self.clock.times(grid, rig.gpu, rig.links, rig.devices)
        roomy = (grid.accumulation > 0) & usable[:, None] & self._roomy(grid, rig.gpu)
        order = np.where(np.isnan(times), _work(grid), times)
        for row in np.argsort(grid.rows):
            own = roomy & (np.arange(len(grid.rows)) == row)[:, None]
            key = self._first(grid, order, own, rig)
            if key is not None:
                step = float(times[row, self.batches.index(key[2])])
                known = bool(np.isfinite(step))
                return Best(key, step if known else None, () if known else missing)
        return Best(None, blocked=lacks)

    def grid(self, rig: Rig) -> Grid | None:
        """What can be laid out on a rig."""
        return self.clock.grid(rig.devices, rig.per_node, min(rig.per_machine, rig.devices))

    def _roomy(self, grid: Grid, gpu: Gpu) -> NDArray[np.bool_]:
        floors = self.memory.floors(grid.rows, grid.data, grid.accumulation, self.clock.batches)
        roomy: NDArray[np.bool_] = floors <= self.memory.limits(grid.rows, gpu)[:, None]
        return roomy

    def _first(self, grid: Grid, order: Floats, roomy: NDArray[np.bool_], rig: Rig) -> Key | None:
        in_order = self._in_order(grid, order, roomy)
        return next((key for key in in_order if self.accepts(key, rig)), None)

    def _in_order(self, grid: Grid, order: Floats, wanted: NDArray[np.bool_]) -> Iterator[Key]:
        flat = np.flatnonzero(wanted & np.isfinite(order))
        for position in flat[np.argsort(order.ravel()[flat], kind="stable")]:
            row, column = divmod(int(position), len(self.batches))
            yield int(grid.rows[row]), int(grid.data[row]), self.batches[column]

    def accepts(self, key: Key, rig: Rig) -> bool:
        """Whether a plan can be laid out, fits on the card, and in the host."""
        return self.sound(key) and self.memory.fits(key, rig.gpu) and self._in_host(key, rig)

    def sound(self, key: Key) -> bool:
        """Whether the planner's checks find no error, and nothing it does not model beyond the question's own."""
        known = key[0], key[1], key[1] * key[2] < self.limits.sequences
        if known not in self._sound:
            variant = self.variants[key[0]]
            asked = self._on(variant.asked, key, "unknown", None)
            resolved = self._on(variant.resolved, key, "unknown", None)
            issues = check(asked, resolved, self.model, self.tables)
            self._sound[known] = not any(
                issue.severity is Severity.ERROR
                or (issue.code == "not_modelled" and issue.field not in self._gaps)
                for issue in issues
            )
        return self._sound[known]

    def _on(self, scenario: Scenario, key: Key, gpu_id: str, rig: Rig | None) -> Scenario:
        variant, data, batch = key
        ram = rig.ram_bytes if rig is not None and self.facts.offloads[variant] else None
        return placed(
            scenario, gpu_id, self.variants[variant].copy * data,
            data=data, micro_batch=batch, accumulation=self.limits.sequences // (data * batch),
            per_node=None if rig is None else rig.per_machine, ram_gib=None if ram is None else gib(ram),
        )  # fmt: skip

    def _in_host(self, key: Key, rig: Rig) -> bool:
        if not self.facts.offloads[key[0]] or rig.ram_bytes is None:
            return True
        known = key[0], key[1]
        if known not in self._host:
            scenario = self._on(self.variants[key[0]].resolved, key, REFERENCE_ID, None)
            share = place(scenario, self.model, self.clock.reference)[0]
            self._host[known] = host_need(share, scenario, self.model).memory_bytes
        return self._host[known] * min(rig.per_machine, rig.devices) <= rig.ram_bytes

    def _usable_rows(self, grid: Grid, gpu: Gpu) -> tuple[NDArray[np.bool_], Issue | None]:
        """Variants whose formats the card has hardware for, and the reason of those it has not."""
        kinds, position = np.unique(self.facts.format_array[grid.rows], return_inverse=True)
        found = [self.lacks(self.facts.formats.index(int(kind)), gpu) for kind in kinds]
        reason = next((issue for issue in found if issue is not None), None)
        usable = np.array([issue is None for issue in found], bool)[position]
        if gpu.compute_capability is None or gpu.compute_capability >= NEEDS["bf16"]:
            usable &= ~self.facts.without_bf16[grid.rows]
        return usable, reason

    def lacks(self, variant: int, gpu: Gpu) -> Issue | None:
        """What a card has no hardware for, of a variant's formats and kernels."""
        key = self.facts.formats[variant], gpu.id
        if key not in self._lacks:
            one = self.variants[variant]
            asked, resolved = (
                placed(_undivided(scenario), gpu.id, 1, data=1, micro_batch=1, accumulation=1)
                for scenario in (one.asked, one.resolved)
            )
            issues = check(asked, resolved, self.model, self.tables)
            self._lacks[key] = next((issue for issue in issues if issue.code in LACKS), None)
        return self._lacks[key]

    def choice(self, key: Key, rig: Rig) -> Choice:
        """A plan as a question that can be opened."""
        variant = self.variants[key[0]]
        sequences = self.limits.sequences // (key[1] * key[2])
        settings = {**variant.settings, "data": key[1], "micro_batch": key[2], "accumulation": sequences}
        same = frozenset(name for name, value in self._own.items() if settings[name] == value)
        scenario = with_network(self._on(variant.asked, key, rig.gpu.id, rig), rig.network_gbit)
        return Choice(settings=settings, unchanged=same, scenario=scenario)

    def first_of(self, rig: Rig, wanted: Callable[[Variant], bool]) -> Best:
        """The fastest plan that fits among some of the variants."""
        grid = self.grid(rig)
        if grid is None:
            return Best(None)
        usable, lacks = self._usable_rows(grid, rig.gpu)
        grid = grid.of(usable & self._wanted(grid, wanted))
        exists = grid.accumulation > 0
        plans = int(exists.sum())
        if not plans:
            return Best(None, blocked=lacks)
        times, _ = self.clock.times(grid, rig.gpu, rig.links, rig.devices)
        key = self._first(grid, times, exists & self._roomy(grid, rig.gpu), rig)
        if key is None:
            return Best(None, plans=plans)
        row = int(np.flatnonzero(grid.rows == key[0])[0])
        return Best(key, float(times[row, self.batches.index(key[2])]), plans=plans)

    def _wanted(self, grid: Grid, wanted: Callable[[Variant], bool]) -> NDArray[np.bool_]:
        return np.array([wanted(self.variants[i]) for i in grid.rows], bool)

    def nearest(self, rig: Rig, wanted: Callable[[Variant], bool] | None = None) -> tuple[Key, int] | None:
        """The leanest plan of a rig where none fits, and by how much it is short.

        A few plans are counted to the byte, in the order of their lower bounds; stages of a pipeline hold more than
        theirs says, so they come later.
        """
        grid = self.grid(rig)
        if grid is None:
            return None
        usable, _ = self._usable_rows(grid, rig.gpu)
        grid = grid.of(usable if wanted is None else usable & self._wanted(grid, wanted))
        floors = self.memory.floors(grid.rows, grid.data, grid.accumulation, self.clock.batches)
        pipeline = self.facts.pipeline[grid.rows][:, None]
        exists = grid.accumulation > 0
        order = np.where(exists, floors * (1 + PIPELINES_LATER * (pipeline - 1)), np.inf)
        best: tuple[Key, int] | None = None
        in_order = self._in_order(grid, order, exists)
        possible = (key for key in in_order if self.sound(key) and self._in_host(key, rig))
        for key in islice(possible, NEAREST_TRIED):
            peak = self.memory.peak(key, rig.gpu)
            if best is None or peak < best[1]:
                best = key, peak
        return None if best is None else (best[0], max(0, -self.memory.spare(best[0], rig.gpu)))


def _undivided(scenario: Scenario) -> Scenario:
    return scenario.model_copy(update={"parallel": type(scenario.parallel)()})


def _work(grid: Grid) -> Floats:
    """Operations of a card and a step, for cards of unknown speed: the least comes first."""
    each = grid.plain["full_flops"] + grid.plain["low_flops"] + grid.plain["attention_flops"]
    return np.where(grid.accumulation > 0, each * grid.accumulation * (1 + grid.bubble), np.inf)


def _gaps(question: Scenario, model: ModelSpec, tables: Tables) -> frozenset[str]:
    """Fields of the question itself that are not modelled; a search does not refuse what was asked."""
    try:
        resolved = resolve(question, model)[0]
        issues = check(question, resolved, model, tables)
    except ScenarioError as refusal:
        issues = refusal.issues
    return frozenset(issue.field for issue in issues if issue.code == "not_modelled")
