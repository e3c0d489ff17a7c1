"""The ledger of one group of devices at every point of a region, as arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.estimate import SEVERITY
from planner.hardware import Band, Tables
from planner.ledger import Category, Layer, Phase
from planner.memory.runtime import slack_fracs
from planner.plan_types import Verdict
from planner.scenario import Scenario
from planner.sweep.formula import Powers, Whole, values
from planner.sweep.region import DeviceProgram
from planner.sweep.sums import Sums, Total, Totals
from planner.training.allocator_cache import cache_bytes, makes_in_streams, parts_of
from planner.training.setup import Setup

PHASES: Final = tuple(Phase)
CODES: Final = {verdict: np.int8(SEVERITY.index(verdict)) for verdict in Verdict}
Which = NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceValues:
    """What a `DevicePlan` says, as arrays that broadcast to the region's shape.

    Attributes:
        peak_bytes: Fullest moment, all layers.
        headroom_bytes: Usable less peak; None where the card's size is not known.
        verdicts: Positions in `SEVERITY`.
        phases: Position of the fullest phase in `Phase`.
        categories: Works out bytes at that moment by category.
    """

    peak_bytes: Whole
    headroom_bytes: Whole | None
    verdicts: NDArray[np.int8]
    phases: NDArray[np.int8]
    categories: Callable[[], dict[Category, Whole]]


@dataclass(frozen=True, slots=True)
class Highest:
    """The highest of several sizes at every point.

    Attributes:
        size: The highest.
        which: Its position among them: the first of equals.
        present: Every position that `which` holds somewhere, and perhaps some that it does not.
    """

    size: Whole
    which: Which
    present: tuple[int, ...]


class Ledgers:
    """The sums that `planner.ledger.Ledger` answers, over a region. A phase is as its fullest moment is.

    Args:
        sums: The device's sums as formulas.
        powers: The points.
    """

    def __init__(self, sums: Sums, powers: Powers) -> None:
        self._sums, self._powers = sums, powers
        self._made: dict[Total | int, Whole] = {}
        self._highest: dict[Totals, Highest] = {}

    def fullest(self, layer: Layer = Layer.DEVICE) -> Highest:
        """The highest total of any moment, and its position among all moments."""
        return self._lead(self._sums.alive(None, layer))

    def peak(self, layer: Layer = Layer.DEVICE) -> tuple[Which, Whole]:
        """As in `Ledger.peak`, with the moment's position for the phase."""
        found = self.fullest(layer)
        return found.which, found.size

    def phase_bytes(self, phase: Phase, layer: Layer = Layer.DEVICE) -> Whole:
        """Bytes alive in a phase."""
        return self._lead(self._sums.alive(phase, layer)).size

    def category_bytes(self, phase: Phase, category: Category, but: Phase | None = None) -> Whole:
        """Allocated bytes of one category alive in a phase, those alive in `but` left out."""
        return self._at_fullest(phase, self._sums.category(phase, category, but))

    def total(self, *names: str) -> Whole:
        """Bytes of the entries with these names, where their moment is its phase's fullest."""
        found: Whole = np.zeros((1, 1), np.int64)
        for phase, totals in self._sums.named(names):
            found = found + self._at_fullest(phase, totals)
        return found

    def hidden(self, setup: Setup) -> Whole:
        """As `planner.training.allocator_cache.hidden_bytes`."""
        bare = self._sums.hidden(in_streams=makes_in_streams(setup))
        return self._lead(bare).size - self._at_fullest(Phase.BACKWARD, bare)

    def stacked(self, at: Highest) -> dict[Category, Whole]:
        """Bytes by category in the moment that each point has."""
        return {
            category: self._picked(at, self._sums.stacked(category, floors=False))
            for category in self._sums.categories
        }

    def floor(self, at: Highest) -> Whole:
        """Bytes of the weights that are counted, in the moment that each point has."""
        return self._picked(at, self._sums.stacked(Category.WEIGHTS, floors=True))

    def _at_fullest(self, phase: Phase, totals: Totals) -> Whole:
        return self._picked(self._lead(self._sums.alive(phase, Layer.DEVICE)), totals)

    def _lead(self, totals: Totals) -> Highest:
        if totals not in self._highest:
            sizes = [self._values(totals.of[i]) for i in totals.may_lead]
            self._highest[totals] = highest(sizes, totals.may_lead)
        return self._highest[totals]

    def _picked(self, at: Highest, totals: Totals) -> Whole:
        """For each point the sum of its moment."""
        first, *others = dict.fromkeys(totals.of[i] for i in at.present)
        found = self._values(first)
        for other in others:
            here = [at.which == i for i in at.present if totals.of[i] is other]
            found = np.where(np.logical_or.reduce(here), self._values(other), found)
        return found

    def _values(self, total: Total) -> Whole:
        if total not in self._made:
            size = self._powers.polynomial(total.polynomial)
            for number in total.others:
                size = size + self._other(number)
            size.setflags(write=False)
            self._made[total] = size
        return self._made[total]

    def _other(self, number: int) -> Whole:
        if number not in self._made:
            self._made[number] = values(self._sums.others[number], self._powers)
        return self._made[number]


def device_values(
    program: DeviceProgram,
    sums: Sums,
    powers: Powers,
    scenario: Scenario,
    tables: Tables,
    band: Band | None,
) -> DeviceValues:
    """Everything at every point.

    Args:
        program: The device's entries.
        sums: Their sums.
        powers: The points.
        scenario: The question with its defaults filled in, for its margin and allocator.
        tables: Constants.
        band: The row behind the band; None where there is none.
    """
    ledgers = Ledgers(sums, powers)
    usable = None if program.usable is None else powers.polynomial(program.usable)
    fullest = ledgers.fullest()
    peak, added = fullest.size, {}
    if program.setup is not None:
        cache = _cache(ledgers, program.setup, program.shard, usable, scenario, tables)
        peak, added = peak + cache, {Category.ALLOCATOR: cache}
    phases = np.array([PHASES.index(phase) for phase, _ in program.moments], np.int8)
    return DeviceValues(
        peak_bytes=peak,
        headroom_bytes=None if usable is None else usable - peak,
        verdicts=_verdicts(peak, usable, ledgers.floor(fullest), scenario.hardware.margin_frac, band),
        phases=phases[fullest.which],
        categories=lambda: ledgers.stacked(fullest) | added,
    )


def _cache(
    ledgers: Ledgers, setup: Setup, shard: int, usable: Whole | None, scenario: Scenario, tables: Tables
) -> Whole:
    """The allocator's cache, by the very rule of a single plan."""
    parts = parts_of(ledgers, setup, shard, ledgers.hidden(setup), larger=np.maximum)
    room = None if usable is None else usable - ledgers.fullest(Layer.PROCESS).size
    fracs = slack_fracs(scenario.runtime.allocator, tables)
    found = cache_bytes(parts, fracs, room, ceil=np.ceil, larger=np.maximum, smaller=np.minimum)
    whole: Whole = np.asarray(found).astype(np.int64)
    return whole


def highest(sizes: Sequence[Whole], positions: Sequence[int]) -> Highest:
    """The highest of several sizes, and the position of which it is: the first of equals."""
    size, which = sizes[0], np.full((1, 1), positions[0], np.int16)
    present = [positions[0]]
    for other, position in zip(sizes[1:], positions[1:], strict=True):
        higher = other > size
        if higher.all():
            size, which, present = other, np.full((1, 1), position, np.int16), [position]
        elif higher.any():
            size, which = np.maximum(size, other), np.where(higher, np.int16(position), which)
            present.append(position)
    return Highest(size, which, tuple(present))


def _verdicts(
    peak: Whole, usable: Whole | None, floor: Whole, margin_frac: float, band: Band | None
) -> NDArray[np.int8]:
    """`planner.estimate.verdict_for` with `planner.accuracy.bands.with_floor`, at every point."""
    if usable is None or band is None:
        return np.full((1, 1), CODES[Verdict.UNKNOWN])
    low = np.maximum(np.rint(peak * band.low_frac), floor)
    high = np.maximum(np.rint(peak * band.high_frac), floor)
    codes = np.where(high <= usable * (1 - margin_frac), CODES[Verdict.FITS], CODES[Verdict.TIGHT])
    return np.where(low > usable, CODES[Verdict.DOES_NOT_FIT], codes)
