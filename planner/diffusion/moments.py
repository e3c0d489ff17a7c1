"""Moments of a network: what is alive at each, and which of them may be the fullest."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from planner.memory.terms import Terms

Amount = Callable[[str, int, int], float]
"""How many cells, tokens or scores a place has, from the cells of the latents and the tokens of the text."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What is alive at one moment, in bytes per unit of each width.

    Attributes:
        held: What the forward pass left.
        again: What the backward pass has computed again.
        working: Everything else.
        come: Elements of weights whose gradients have come.
        fresh: Those of them that come at this moment.
    """

    held: Terms
    again: Terms
    working: Terms
    come: int = 0
    fresh: int = 0

    @property
    def terms(self) -> Terms:
        """All of it."""
        total: Terms = {}
        for part in (self.held, self.again, self.working):
            for width, size in part.items():
                total[width] = total.get(width, 0) + size
        return total


Place = Callable[[str], tuple[str, float]]
"""A width's place and how many elements it has there."""

HELD, AGAIN, WORKING = range(3)
SIZES: Final = ((8 * 8, 77), (32 * 32, 77), (96 * 96, 77), (256 * 256, 77))
"""Cells and tokens of the text: for each, the moments that may be the fullest are kept."""

Seen = tuple[tuple[float, ...], tuple[tuple[float, ...], ...], int, int]
Slot = tuple[int, float, tuple[float, ...]]


class Alive:
    """Tensors that are alive, and every moment that was looked at.

    Args:
        sizes: Width and bytes of an element, by storage.
        place: A width's place.
        amount: How many there are of a place's cells, tokens or scores.
    """

    def __init__(self, sizes: Mapping[int, tuple[str, float]], place: Place, amount: Amount) -> None:
        self._sizes, self._place, self._amount = sizes, place, amount
        self._slots: dict[str, Slot] = {}
        self._places: dict[str, int] = {}
        self.where: dict[int, int] = {}
        self._sums: tuple[list[float], list[float], list[float]] = ([], [], [])
        self._totals = [0.0] * len(SIZES)
        self._seen: list[Seen] = []

    def put(self, storage: int, part: int) -> None:
        """A tensor is made, or changes the part that it counts to."""
        self.drop(storage)
        self.where[storage] = part
        self._count(storage, part, 1.0)

    def drop(self, storage: int) -> None:
        """A tensor is gone."""
        part = self.where.pop(storage, None)
        if part is not None:
            self._count(storage, part, -1.0)

    def _count(self, storage: int, part: int, sign: float) -> None:
        width, size = self._sizes[storage]
        slot, count, weights = self._slots.get(width) or self._slot(width)
        self._sums[part][slot] += sign * count * size
        totals = self._totals
        for index, weight in enumerate(weights):
            totals[index] += sign * size * weight

    def _slot(self, width: str) -> Slot:
        place, count = self._place(width)
        number = self._places.setdefault(place, len(self._places))
        weights = tuple(count * self._amount(place, cells, text) for cells, text in SIZES)
        for sums in self._sums:
            sums.extend([0.0] * (number + 1 - len(sums)))
        found = self._slots[width] = number, count, weights
        return found

    def look(self, extra: Iterable[tuple[str, float]] = (), come: int = 0, fresh: int = 0) -> None:
        """A moment.

        Args:
            extra: What is alive beside the tensors, by width.
            come: Elements whose gradients have come.
            fresh: Those that come now.
        """
        totals, more = list(self._totals), list[tuple[int, float]]()
        for width, size in extra:
            slot, count, weights = self._slots.get(width) or self._slot(width)
            more.append((slot, count * size))
            totals = [total + size * weight for total, weight in zip(totals, weights, strict=True)]
        working = list(self._sums[WORKING])
        for slot, amount in more:
            working[slot] += amount
        parts = tuple(self._sums[HELD]), tuple(self._sums[AGAIN]), tuple(working)
        self._seen.append((tuple(totals), parts, come, fresh))

    def held(self) -> Terms:
        """All that is alive, by place."""
        return self._terms(tuple(map(sum, zip(*self._sums, strict=True))))

    def _terms(self, sums: Sequence[float]) -> Terms:
        return {place: sums[slot] for place, slot in self._places.items() if slot < len(sums) and sums[slot]}

    def moments(self) -> tuple[Moment, ...]:
        """The moments that are the fullest for some sizes and some bytes of a gradient, and the last one."""
        keep = {len(self._seen) - 1} if self._seen else set[int]()
        for size in range(len(SIZES)):
            keep |= upper_hull([(seen[0][size], seen[2]) for seen in self._seen])
            keep |= upper_hull([(seen[0][size], seen[3]) for seen in self._seen])
        return tuple(self._moment(self._seen[index]) for index in sorted(keep))

    def _moment(self, seen: Seen) -> Moment:
        _, parts, come, fresh = seen
        held, again, working = map(self._terms, parts)
        return Moment(held, again, working, come, fresh)


def upper_hull(points: Sequence[tuple[float, int]]) -> set[int]:
    """Which points are the largest in a sum of both coordinates, for some weights from 0."""
    best: dict[int, int] = {}
    for index, (size, other) in enumerate(points):
        first = best.get(other)
        if first is None or size > points[first][0]:
            best[other] = index
    hull: list[int] = []
    for index in sorted(best.values(), key=lambda index: points[index], reverse=True):
        if hull and points[index][1] <= points[hull[-1]][1]:
            continue
        while len(hull) > 1 and not _turns(points[hull[-2]], points[hull[-1]], points[index]):
            hull.pop()
        hull.append(index)
    return set(hull)


def _turns(a: tuple[float, int], b: tuple[float, int], c: tuple[float, int]) -> bool:
    """Whether b lies outside the line from a to c."""
    return (a[0] - b[0]) * (c[1] - b[1]) < (b[0] - c[0]) * (b[1] - a[1])
