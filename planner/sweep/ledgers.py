"""The ledger of one group of devices at every point of a region, as arrays."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.estimate import SEVERITY
from planner.hardware import Band, Tables
from planner.ledger import LAYER_ORDER, Category, Layer, Phase
from planner.memory.runtime import slack_fracs
from planner.plan_types import Verdict
from planner.scenario import Scenario
from planner.sweep.formula import Powers, Whole, values
from planner.sweep.region import DeviceProgram, Group, Key, Moment
from planner.training.allocator_cache import cache_bytes, is_hidden, makes_in_streams, parts_of
from planner.training.setup import Setup

PHASES: Final = tuple(Phase)
UP_TO: Final = {layer: frozenset(LAYER_ORDER[: i + 1]) for i, layer in enumerate(LAYER_ORDER)}
CODES: Final = {verdict: SEVERITY.index(verdict) for verdict in Verdict}
Which = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceValues:
    """What a `DevicePlan` says, as arrays that broadcast to the region's shape.

    Attributes:
        peak_bytes: Fullest moment, all layers.
        headroom_bytes: Usable less peak; None where the card's size is not known.
        verdicts: Positions in `SEVERITY`.
        phases: Position of the fullest phase in `Phase`.
        categories: Bytes at that moment by category.
    """

    peak_bytes: Whole
    headroom_bytes: Whole | None
    verdicts: NDArray[np.int8]
    phases: NDArray[np.int8]
    categories: dict[Category, Whole]


class Ledgers:
    """The sums that `planner.ledger.Ledger` answers, over a region. A phase is as its fullest moment is.

    Args:
        program: The device's entries.
        powers: The points.
    """

    def __init__(self, program: DeviceProgram, powers: Powers) -> None:
        self.moments = program.moments
        self._sizes = {key: _size(group, powers) for key, group in program.groups.items()}
        self._made: dict[tuple[Key, ...], Whole] = {}

    def moment_bytes(self, moment: Moment, layer: Layer = Layer.DEVICE) -> Whole:
        """Bytes alive in one moment, every layer up to `layer`."""
        inner = UP_TO[layer]
        return self._added(key for key in self._sizes if moment in key[2] and key[1] in inner)

    def fullest(self, layer: Layer = Layer.DEVICE) -> tuple[Whole, Which]:
        """The highest total of any moment, and its position in `moments`: the first of equals."""
        return _highest([self.moment_bytes(moment, layer) for moment in self.moments])

    def peak(self, layer: Layer = Layer.DEVICE) -> tuple[Which, Whole]:
        """As in `Ledger.peak`, with the moment's position for the phase."""
        total, which = self.fullest(layer)
        return which, total

    def phase_bytes(self, phase: Phase, layer: Layer = Layer.DEVICE) -> Whole:
        """Bytes alive in a phase."""
        return _highest([self.moment_bytes(moment, layer) for moment in self._within(phase)])[0]

    def category_bytes(self, phase: Phase, category: Category, but: Phase | None = None) -> Whole:
        """Allocated bytes of one category alive in a phase, those alive in `but` left out."""
        left_out = frozenset(self._within(but)) if but else frozenset()
        keys = [
            key
            for key in self._sizes
            if key[0] is category and key[1] is Layer.ALLOCATED and not key[2] & left_out
        ]
        return self._picked(
            phase, {m: self._added(k for k in keys if m in k[2]) for m in self._within(phase)}
        )

    def total(self, *names: str) -> Whole:
        """Bytes of the entries with these names, where their moment is its phase's fullest."""
        found: Whole = np.zeros((1, 1), np.int64)
        for key, size in self._sizes.items():
            if key[4] in names:
                phase = next(iter(key[2]))[0]
                nothing = np.zeros((1, 1), np.int64)
                by_moment = {m: size if m in key[2] else nothing for m in self._within(phase)}
                found = found + self._picked(phase, by_moment)
        return found

    def hidden(self, setup: Setup) -> Whole:
        """As `planner.training.allocator_cache.hidden_bytes`."""
        streams = makes_in_streams(setup)
        bare = {
            moment: self._added(
                k for k in self._sizes if moment in k[2] and is_hidden(k[0], k[1], k[4], in_streams=streams)
            )
            for moment in self._within(Phase.BACKWARD)
        }
        return _highest(list(bare.values()))[0] - self._picked(Phase.BACKWARD, bare)

    def at(self, which: Which, *, floors: bool = False) -> dict[Category, Whole]:
        """Bytes by category in the moment that each point has; `floors`: counted weights alone."""
        found = {}
        for category in dict.fromkeys(key[0] for key in self._sizes):
            keys = [key for key in self._sizes if key[0] is category and (key[3] or not floors)]
            sums = [self._added(key for key in keys if moment in key[2]) for moment in self.moments]
            found[category] = _pick(which, sums)
        return found

    def _within(self, phase: Phase) -> tuple[Moment, ...]:
        return tuple(moment for moment in self.moments if moment[0] is phase)

    def _picked(self, phase: Phase, sizes: dict[Moment, Whole]) -> Whole:
        if len(sizes) == 1:
            return next(iter(sizes.values()))
        return _pick(self._fullest_of[phase], list(sizes.values()))

    @cached_property
    def _fullest_of(self) -> dict[Phase, Which]:
        return {
            phase: _highest([self.moment_bytes(moment) for moment in self._within(phase)])[1]
            for phase in dict.fromkeys(phase for phase, _ in self.moments)
        }

    def _added(self, keys: Iterable[Key]) -> Whole:
        """The sum of several groups; equal lists share one array."""
        alike = tuple(keys)
        if alike not in self._made:
            total: Whole = np.zeros((1, 1), np.int64)
            for key in alike:
                total = total + self._sizes[key]
            self._made[alike] = total
        return self._made[alike]


def device_values(
    program: DeviceProgram,
    powers: Powers,
    scenario: Scenario,
    tables: Tables,
    band: Band | None,
) -> DeviceValues:
    """Everything at every point.

    Args:
        program: The device's entries.
        powers: The points.
        scenario: The question with its defaults filled in, for its margin and allocator.
        tables: Constants.
        band: The row behind the band; None where there is none.
    """
    ledgers = Ledgers(program, powers)
    usable = None if program.usable is None else powers.polynomial(program.usable)
    peak, which = ledgers.fullest()
    categories = ledgers.at(which)
    if program.setup is not None:
        cache = _cache(ledgers, program.setup, program.shard, usable, scenario, tables)
        categories[Category.ALLOCATOR] = cache
        peak = peak + cache
    floor = ledgers.at(which, floors=True).get(Category.WEIGHTS, np.zeros((1, 1), np.int64))
    return DeviceValues(
        peak_bytes=peak,
        headroom_bytes=None if usable is None else usable - peak,
        verdicts=_verdicts(peak, usable, floor, scenario.hardware.margin_frac, band),
        phases=np.array([PHASES.index(phase) for phase, _ in ledgers.moments], np.int8)[which],
        categories=categories,
    )


def _size(group: Group, powers: Powers) -> Whole:
    size = powers.polynomial(group.polynomial)
    for other in group.others:
        size = size + values(other, powers)
    return size


def _cache(
    ledgers: Ledgers, setup: Setup, shard: int, usable: Whole | None, scenario: Scenario, tables: Tables
) -> Whole:
    """The allocator's cache, by the very rule of a single plan."""
    parts = parts_of(ledgers, setup, shard, ledgers.hidden(setup), larger=np.maximum)
    room = None if usable is None else usable - ledgers.fullest(Layer.PROCESS)[0]
    fracs = slack_fracs(scenario.runtime.allocator, tables)
    found = cache_bytes(parts, fracs, room, ceil=np.ceil, larger=np.maximum, smaller=np.minimum)
    whole: Whole = np.asarray(found).astype(np.int64)
    return whole


def _highest(totals: list[Whole]) -> tuple[Whole, Which]:
    """The highest of several totals, and which: the first of equals."""
    peak = totals[0]
    which: Which = np.zeros((1, 1), np.intp)
    for i, total in enumerate(totals[1:], start=1):
        higher = total > peak
        peak, which = np.where(higher, total, peak), np.where(higher, i, which)
    return peak, which


def _pick(which: Which, sizes: list[Whole]) -> Whole:
    """For each point the size at its position."""
    if all(size is sizes[0] for size in sizes):
        return sizes[0]
    found: Whole = np.zeros((1, 1), np.int64)
    for i, size in enumerate(sizes):
        found = np.where(which == i, size, found)
    return found


def _verdicts(
    peak: Whole, usable: Whole | None, floor: Whole, margin_frac: float, band: Band | None
) -> NDArray[np.int8]:
    """`planner.estimate.verdict_for` with `planner.accuracy.bands.with_floor`, at every point."""
    if usable is None or band is None:
        return np.full((1, 1), CODES[Verdict.UNKNOWN], np.int8)
    low, high = np.rint(peak * band.low_frac), np.rint(peak * band.high_frac)
    low, high = np.maximum(low, floor), np.where(floor > low, np.maximum(floor, high), high)
    codes = np.where(high <= usable * (1 - margin_frac), CODES[Verdict.FITS], CODES[Verdict.TIGHT])
    return np.where(low > usable, CODES[Verdict.DOES_NOT_FIT], codes).astype(np.int8)
