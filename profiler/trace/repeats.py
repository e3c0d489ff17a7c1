"""Which short models stand for a full one: the pattern in which its layers repeat. Pure.

The kinds of layers have to repeat from some layer on; the short models have the full one's first layers and end at the
same place of the pattern.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

Kinds = Sequence[Any]
"""How each layer is built; equal for layers that are built alike."""


class FullModeError(Exception):
    """The model has to be traced whole.

    Attributes:
        code: Why.
        detail: More of it.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class Lengths(NamedTuple):
    """Which models stand for the full one.

    Attributes:
        shorter: Layers of the one.
        period: Layers that the other has more.
        full: Layers of the full one.
    """

    shorter: int
    period: int
    full: int

    @property
    def longer(self) -> int:
        """Layers of the other."""
        return self.shorter + self.period

    @property
    def periods(self) -> int:
        """Periods to add to the longer one."""
        return (self.full - self.longer) // self.period

    def at_full(self, shorter: int, longer: int) -> int:
        """A count at the full model, from those at the two others."""
        return longer + self.periods * (longer - shorter)

    @property
    def saves(self) -> bool:
        """Whether fewer layers are run than the full model has."""
        return self.shorter + self.longer < self.full


def choose(kinds: Kinds) -> Lengths:
    """The shortest pair of models that stands for one with layers of these kinds.

    Beside the layers in front of the pattern the shorter one has two periods and two layers, so that one period
    is left between the first layers and the last, which are like no others, and the pattern is seen twice.

    Raises:
        FullModeError: The kinds do not repeat, or there are too few layers to gain anything.
    """
    full = len(kinds)
    found: list[Lengths] = []
    for period in range(1, full // 2 + 1):
        first = full - period
        while first > 0 and kinds[first - 1] == kinds[first - 1 + period]:
            first -= 1
        if first + 2 * period > full:
            continue
        least = first + 2 * period + 2
        found.append(Lengths(shorter=least + (full - least) % period, period=period, full=full))
    if not found:
        raise FullModeError("no_repeating_layers")
    best = min(found, key=lambda lengths: lengths.longer + lengths.shorter)
    if not best.saves:
        raise FullModeError("few_layers", str(full))
    return best
