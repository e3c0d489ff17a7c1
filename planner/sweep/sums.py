"""Which of a device's entries are added up for what, as formulas: found once for a region, whatever its points."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from operator import eq
from typing import Final

from planner.lazy import lazy
from planner.ledger import LAYER_ORDER, Category, Layer, Phase
from planner.sweep.formula import Formula
from planner.sweep.polynomial import Polynomial, Power
from planner.sweep.region import DeviceProgram, Key, Moment
from planner.training.allocator_cache import is_hidden

UP_TO: Final = {layer: frozenset(LAYER_ORDER[: i + 1]) for i, layer in enumerate(LAYER_ORDER)}


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """A sum of entries. Equal sums are one object, so that each is worked out once.

    Attributes:
        polynomial: What of it is a polynomial.
        others: Positions of the rest in `Sums.others`, ascending.
    """

    polynomial: Polynomial
    others: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Totals:
    """One sum for each moment of a phase, or of all phases.

    Attributes:
        of: The sums, moment by moment.
    """

    of: tuple[Total, ...]

    @lazy
    def may_lead(self) -> tuple[int, ...]:
        """Positions of those that may be the first of the highest somewhere: that no other is ahead of everywhere."""
        return tuple(
            i
            for i, one in enumerate(self.of)
            if not any(j != i and _is_ahead(other, one, first=j < i) for j, other in enumerate(self.of))
        )


class Sums:
    """The sums of one group of devices.

    Args:
        program: The device's entries.

    Attributes:
        others: Formulas that are no polynomials.
    """

    def __init__(self, program: DeviceProgram) -> None:
        self.moments = program.moments
        self.categories = tuple(dict.fromkeys(key[0] for key in program.groups))
        self.others: list[Formula] = []
        self._groups = {
            key: (
                {power: int(coefficient) for power, coefficient in group.polynomial.items()},
                tuple(map(self._number, group.others)),
            )
            for key, group in program.groups.items()
        }
        self._totals: dict[object, Total] = {}
        self._known: dict[tuple[object, ...], Totals] = {}

    def alive(self, phase: Phase | None, layer: Layer) -> Totals:
        """Bytes alive, every layer up to `layer`."""
        inner = UP_TO[layer]
        return self._kept(("alive", phase, layer), phase, lambda key: key[1] in inner)

    def category(self, phase: Phase, category: Category, but: Phase | None) -> Totals:
        """Allocated bytes of one category, those alive in `but` left out."""
        left_out = frozenset(self._within(but)) if but else frozenset()
        return self._kept(
            ("category", phase, category, but),
            phase,
            lambda key: key[0] is category and key[1] is Layer.ALLOCATED and not key[2] & left_out,
        )

    def stacked(self, category: Category, *, floors: bool) -> Totals:
        """Bytes of one category in every moment, all layers; `floors`: of what is counted, not estimated, alone."""
        return self._kept(
            ("stacked", category, floors), None, lambda key: key[0] is category and (key[3] or not floors)
        )

    def hidden(self, *, in_streams: bool) -> Totals:
        """What counts in `planner.training.allocator_cache.hidden_bytes`, of the backward pass."""
        return self._kept(
            ("hidden", in_streams),
            Phase.BACKWARD,
            lambda key: is_hidden(key[0], key[1], key[4], in_streams=in_streams),
        )

    def named(self, names: tuple[str, ...]) -> list[tuple[Phase, Totals]]:
        """Entries with these names, one by one, with a phase in which each is alive."""
        found = []
        for key in self._groups:
            if key[4] in names:
                phase = next(phase for phase, number in self.moments if (phase, number) in key[2])
                found.append((phase, self._kept(("named", key), phase, partial(eq, key))))
        return found

    def _within(self, phase: Phase | None) -> tuple[Moment, ...]:
        return tuple(moment for moment in self.moments if phase is None or moment[0] is phase)

    def _kept(
        self, question: tuple[object, ...], phase: Phase | None, wanted: Callable[[Key], bool]
    ) -> Totals:
        if question not in self._known:
            keys = [key for key in self._groups if wanted(key)]
            of = tuple(self._total(key for key in keys if moment in key[2]) for moment in self._within(phase))
            self._known[question] = Totals(of)
        return self._known[question]

    def _total(self, keys: Iterable[Key]) -> Total:
        polynomial: dict[Power, int] = {}
        others: list[int] = []
        for key in keys:
            more, numbers = self._groups[key]
            others += numbers
            for power, coefficient in more.items():
                polynomial[power] = polynomial.get(power, 0) + coefficient
        found = Total({power: c for power, c in polynomial.items() if c}, tuple(sorted(others)))
        return self._totals.setdefault((frozenset(found.polynomial.items()), found.others), found)

    def _number(self, other: Formula) -> int:
        if other not in self.others:
            self.others.append(other)
        return self.others.index(other)


def _is_ahead(other: Total, one: Total, *, first: bool) -> bool:
    """Whether a sum is seen to be the higher at every point, or to come first where both are equal.

    Sizes are at least 1, so a polynomial without a negative coefficient is positive unless it is empty.
    """
    if other is one:
        return first
    if other.others != one.others:
        return False
    a, b = other.polynomial, one.polynomial
    return all(a.get(power, 0) >= b.get(power, 0) for power in a.keys() | b.keys())
