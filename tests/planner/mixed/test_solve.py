"""The search over layouts against brute force."""

from collections.abc import Iterator
from random import Random

import pytest

from planner.mixed.solve import Kind, Layout, Place, Seconds, solve, step_s

CASES = 200


class Cards:
    """Random cards and layers: memory grows with layers and with micro-batches in flight, ends cost extra."""

    def __init__(self, seed: int) -> None:
        draw = Random(seed)  # noqa: S311 -- test data
        self.layers = draw.randint(1, 6)
        self.kinds = [self._kind(draw) for _ in range(draw.randint(1, 3))]
        self.micro_batches = draw.choice((1, 2, 3, 8))
        self.in_turn = draw.random() < 0.2
        self.size = [draw.uniform(1, 3) for _ in range(self.layers)]
        self.time = [draw.uniform(1, 3) for _ in range(self.layers)]
        self.slowness = [draw.uniform(0.5, 3) for _ in self.kinds]
        self.room = [draw.uniform(2, 14) for _ in self.kinds]
        self.kept, self.first, self.head = draw.uniform(0, 1), draw.uniform(0, 2), draw.uniform(0, 2)

    @staticmethod
    def _kind(draw: Random) -> Kind:
        cards = draw.randint(1, 4)
        return Kind(
            cards=cards, widths=tuple(w for w in draw.choice(((1,), (2,), (1, 2))) if w <= cards) or (1,)
        )

    def seconds(self, place: Place) -> float | None:
        held = 1 if self.in_turn else min(place.after + 1, self.micro_batches)
        need = sum(self.size[place.start : place.end]) * (1 + self.kept * held)
        need += self.first * place.is_first + self.head * (place.after == 0)
        if need > self.room[place.kind] * place.width:
            return None
        work = sum(self.time[place.start : place.end]) + self.head * (place.after == 0)
        return work * self.slowness[place.kind] / place.width

    @property
    def least_layer_s(self) -> float:
        widest = max(width for kind in self.kinds for width in kind.widths)
        return min(self.time) * min(self.slowness) / widest


def every_layout(
    end: int, used: tuple[int, ...], after: int, kinds: list[Kind], seconds: Seconds
) -> Iterator[list[float]]:
    """Stage times of every way to place the layers up to `end`, last stage first."""
    for number, kind in enumerate(kinds):
        for width in kind.widths:
            if used[number] + width > kind.cards:
                continue
            for start in range(end):
                place = Place(
                    kind=number, width=width, after=after, start=start, end=end, is_first=start == 0
                )
                cost = seconds(place)
                if cost is None:
                    continue
                if start == 0:
                    yield [cost]
                    continue
                taken = tuple(n + width * (i == number) for i, n in enumerate(used))
                for rest in every_layout(start, taken, after + 1, kinds, seconds):
                    yield [cost, *rest]


@pytest.mark.parametrize("block", range(4))
def test_the_search_finds_what_brute_force_finds(block: int) -> None:
    solved = 0
    for seed in range(block * CASES // 4, (block + 1) * CASES // 4):
        cards = Cards(seed)
        found = solve(
            cards.layers,
            cards.kinds,
            cards.micro_batches,
            cards.seconds,
            in_turn=cards.in_turn,
            least_layer_s=cards.least_layer_s,
        )
        best = min(
            (
                step_s(max(times), sum(times), cards.micro_batches, in_turn=cards.in_turn)
                for times in every_layout(
                    cards.layers, (0,) * len(cards.kinds), 0, cards.kinds, cards.seconds
                )
            ),
            default=None,
        )
        if best is None:
            assert found is None, seed
            continue
        solved += 1
        assert found is not None, seed
        assert found.step_s == pytest.approx(best, rel=1e-12), seed
        check(found, cards)
    assert solved > CASES // 8


def check(found: Layout, cards: Cards) -> None:
    """A layout places every layer once, on cards there are, where they fit, and its times are its stages'."""
    layers = [layer for stage in found.stages for layer in range(stage.start, stage.end)]
    assert layers == list(range(cards.layers))
    for number, kind in enumerate(cards.kinds):
        assert sum(stage.width for stage in found.stages if stage.kind == number) <= kind.cards
    times = []
    for position, stage in enumerate(found.stages):
        assert stage.after == len(found.stages) - 1 - position
        assert stage.is_first == (position == 0)
        cost = cards.seconds(stage)
        assert cost is not None
        times.append(cost)
    assert found.slowest_s == pytest.approx(max(times))
    assert found.sum_s == pytest.approx(sum(times))


def test_a_model_that_no_card_holds_has_no_layout() -> None:
    assert solve(3, [Kind(cards=2, widths=(1,))], 4, lambda _: None) is None


def test_the_number_of_stages_can_be_limited() -> None:
    def one_layer_a_card(place: Place) -> float | None:
        return 1.0 if place.end - place.start == 1 else None

    kinds = [Kind(cards=3, widths=(1,))]
    found = solve(3, kinds, 4, one_layer_a_card)
    assert found is not None
    assert (len(found.stages), found.step_s) == (3, 6.0)
    assert solve(3, kinds, 4, one_layer_a_card, most_stages=2) is None
