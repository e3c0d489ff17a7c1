"""The fastest pipeline over unequal cards: an exact dynamic programme over layers, cards used and stages.

A stage is `width` cards of one kind and a run of layers. One step of `m` micro-batches takes (m - 1) x the slowest
stage plus the sum of all stages (1F1B and GPipe; Narayanan et al. 2021, arXiv 2104.04473, section 2.2, for unequal
stages), or m x the sum where one stage works at a time. Stages are placed from the last to the first, because how
many micro-batches a stage keeps depends on how many stages follow it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

MOST_UNITS: Final = 12
"""Cards of one kind, in stages of the narrowest width, up to which the search is exact within seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Equal cards.

    Attributes:
        cards: How many there are.
        widths: Cards that one stage may take.
    """

    cards: int
    widths: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A stage that the search asks about.

    Attributes:
        kind: Position in the kinds.
        width: Cards of the stage.
        after: Stages that follow it.
        start: First layer.
        end: One past the last layer.
        is_first: Whether no stage comes before it.
    """

    kind: int
    width: int
    after: int
    start: int
    end: int
    is_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Stages in model order.

    Attributes:
        stages: Each with its kind, width and layers.
        slowest_s: Micro-batch time of the slowest stage.
        sum_s: Micro-batch time of all stages together.
        step_s: The step.
    """

    stages: tuple[Place, ...]
    slowest_s: float
    sum_s: float
    step_s: float


Seconds = Callable[[Place], float | None]
"""Time of one micro-batch on a stage; None where the stage's cards don't hold it."""


@dataclass(frozen=True, slots=True)
class _Partial:
    """Stages placed so far, last stage first, as a linked list."""

    slowest: float
    total: float
    stage: Place | None
    rest: "_Partial | None"


def step_s(slowest_s: float, sum_s: float, micro_batches: int, *, in_turn: bool) -> float:
    """Seconds of a step: the pipeline filled and emptied once, or one stage at a time.

    Args:
        slowest_s: A micro-batch on the slowest stage.
        sum_s: A micro-batch on all of them.
        micro_batches: Of a step.
        in_turn: One stage at a time.
    """
    if in_turn:
        return micro_batches * sum_s
    return (micro_batches - 1) * slowest_s + sum_s


def solve(
    num_layers: int,
    kinds: Sequence[Kind],
    micro_batches: int,
    seconds: Seconds,
    *,
    in_turn: bool = False,
    least_layer_s: float = 0.0,
    most_stages: int | None = None,
) -> Layout | None:
    """The layout with the shortest step; of equal ones, that with fewer stages.

    Args:
        num_layers: Layers to place, every one once and in order.
        kinds: The cards; some may be left out.
        micro_batches: Of one step.
        seconds: What a stage takes. It may be None for a run of layers only if it is for every longer run in the
            same place, which holds for memory.
        in_turn: One stage works at a time (`naive`), so that only the sum counts.
        least_layer_s: A time such that a stage of n layers never takes less than n times it; cuts the search.
        most_stages: Upper limit; the number of cards if not given.

    Returns:
        The optimum, or None where nothing holds the model.
    """
    limit = min(num_layers, most_stages or sum(kind.cards // min(kind.widths) for kind in kinds))
    nothing = (0,) * len(kinds)
    open_states: dict[tuple[int, tuple[int, ...]], list[_Partial]] = {
        (num_layers, nothing): [_Partial(0.0, 0.0, None, None)]
    }
    best: Layout | None = None
    for after in range(limit):
        reached: dict[tuple[int, tuple[int, ...]], list[_Partial]] = {}
        for (end, used), fronts in open_states.items():
            for place, cost in _stages_ending_at(end, used, after, kinds, seconds):
                for partial in fronts:
                    longer = _Partial(max(partial.slowest, cost), partial.total + cost, place, partial)
                    ahead = least_layer_s * place.start
                    bound = step_s(longer.slowest, longer.total + ahead, micro_batches, in_turn=in_turn)
                    if best is not None and bound >= best.step_s:
                        continue
                    if place.is_first:
                        best = _layout(longer, bound)
                        continue
                    taken = _with(used, place)
                    _keep(reached.setdefault((place.start, taken), []), longer, in_turn=in_turn)
        open_states = reached
    return best


def _stages_ending_at(
    end: int, used: tuple[int, ...], after: int, kinds: Sequence[Kind], seconds: Seconds
) -> list[tuple[Place, float]]:
    """Every stage that can hold layers up to `end` on cards that are left, shortest first."""
    found = []
    for number, kind in enumerate(kinds):
        for width in kind.widths:
            if used[number] + width > kind.cards:
                continue
            for start in range(end - 1, -1, -1):
                place = Place(
                    kind=number, width=width, after=after, start=start, end=end, is_first=start == 0
                )
                cost = seconds(place)
                if cost is None:
                    break
                found.append((place, cost))
    return found


def _with(used: tuple[int, ...], place: Place) -> tuple[int, ...]:
    return tuple(count + place.width if number == place.kind else count for number, count in enumerate(used))


def _keep(front: list[_Partial], new: _Partial, *, in_turn: bool) -> None:
    """Puts a partial layout in, and takes out those it makes pointless: slower in both respects."""
    for old in front:
        if old.total <= new.total and (in_turn or old.slowest <= new.slowest):
            return
    front[:] = [old for old in front if old.total < new.total or (old.slowest < new.slowest and not in_turn)]
    front.append(new)


def _layout(partial: _Partial, step: float) -> Layout:
    stages = []
    node: _Partial | None = partial
    while node is not None and node.stage is not None:
        stages.append(node.stage)
        node = node.rest
    return Layout(stages=tuple(stages), slowest_s=partial.slowest, sum_s=partial.total, step_s=step)
