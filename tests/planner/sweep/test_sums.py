"""Sums as formulas: equal ones are one, and those that can never be the highest are passed over."""

import numpy as np
import pytest

from planner.ledger import Category, Layer, Phase
from planner.sweep.formula import Ceil, Powers
from planner.sweep.ledgers import Ledgers, highest
from planner.sweep.polynomial import Polynomial, add
from planner.sweep.region import DeviceProgram, Group, Key, Moment
from planner.sweep.sums import Sums

FORWARD: Moment = (Phase.FORWARD, ())
MOMENTS: tuple[Moment, ...] = (FORWARD, *((Phase.BACKWARD, (n,)) for n in range(4)))
X, Y, ONE = (1, 0), (0, 1), (0, 0)
HALF_A_ROW = Ceil({X: 1, Y: 1}, 2)
POWERS = Powers(np.arange(1, 6)[:, None], np.arange(1, 9)[None, :])


def key(*moments: Moment, category: Category = Category.ACTIVATIONS) -> Key:
    return category, Layer.ALLOCATED, frozenset(moments), False, ""


def device(groups: dict[Key, Group]) -> Sums:
    program = DeviceProgram(moments=MOMENTS, groups=groups, usable=None, setup=None, shard=1)
    return Sums(program)


def sums() -> Sums:
    """Backward moments of 3x, 3x + 1, 5y and, in two parts, 3x again, each with half a row rounded up; forward x."""
    return device(
        {
            key(FORWARD): Group({X: 1}),
            key(MOMENTS[1]): Group({X: 3}),
            key(MOMENTS[2]): Group({X: 3, ONE: 1}),
            key(MOMENTS[3]): Group({Y: 5}),
            key(MOMENTS[4]): Group({X: 1}),
            key(MOMENTS[4], category=Category.LOGITS): Group({X: 2}),
            key(*MOMENTS[1:], category=Category.WEIGHTS): Group({}, [HALF_A_ROW]),
        }
    )


def test_equal_sums_are_one_object() -> None:
    found = sums().alive(Phase.BACKWARD, Layer.DEVICE)
    assert found.of[0] is found.of[3]
    assert len(set(found.of)) == 3


def test_a_sum_that_another_is_ahead_of_everywhere_may_not_lead() -> None:
    assert sums().alive(Phase.BACKWARD, Layer.DEVICE).may_lead == (1, 2)
    assert sums().alive(None, Layer.DEVICE).may_lead == (0, 2, 3)


def test_of_equal_sums_the_first_may_lead() -> None:
    alike = device({key(moment): Group({X: 2}) for moment in MOMENTS})
    assert alike.alive(None, Layer.DEVICE).may_lead == (0,)


def test_the_highest_and_its_parts_are_those_of_every_moment_worked_out() -> None:
    ledgers, x, y = Ledgers(sums(), POWERS), POWERS.x, POWERS.y
    half = -(-(x + y) // 2)
    moments = np.stack([x + 0 * y, 3 * x + half, 3 * x + 1 + half, 5 * y + half, 3 * x + half])
    fullest = ledgers.fullest()
    assert np.array_equal(np.broadcast_to(fullest.size, moments[0].shape), moments.max(axis=0))
    assert np.array_equal(np.broadcast_to(fullest.which, moments[0].shape), moments.argmax(axis=0))
    stacked = ledgers.stacked(fullest)
    assert np.array_equal(sum(stacked.values()), fullest.size)
    assert not np.any(stacked[Category.LOGITS])
    assert np.array_equal(ledgers.phase_bytes(Phase.FORWARD), x)


def test_sums_that_are_shared_cannot_be_changed() -> None:
    found = Ledgers(sums(), POWERS).phase_bytes(Phase.FORWARD)
    with pytest.raises(ValueError, match="read-only"):
        found += 1


def test_the_first_of_equals_is_the_highest_and_those_passed_everywhere_are_gone() -> None:
    low, level, high = np.array([[1, 1]]), np.array([[2, 2]]), np.array([[2, 3]])
    found = highest([low, level, high], (4, 5, 6))
    assert found.size.tolist() == [[2, 3]]
    assert found.which.tolist() == [[5, 6]]
    assert found.present == (5, 6)


@pytest.mark.parametrize(
    "one",
    [{}, {ONE: 7}, {X: 2, Y: -3, ONE: 1}, {(1, 1): 4, (0, 2): 5}, {(2, 3): 1, (1, 0): 2, (0, 1): 6}],
)
def test_horner_gives_what_the_powers_do(one: Polynomial) -> None:
    x, y = POWERS.x, POWERS.y
    plain = sum((int(c) * x**i * y**j for (i, j), c in one.items()), np.zeros((1, 1), np.int64))
    assert np.array_equal(np.broadcast_to(POWERS.polynomial(one), (5, 8)), np.broadcast_to(plain, (5, 8)))


@pytest.mark.parametrize(("one", "shape"), [({ONE: 7}, (1, 1)), ({X: 2, ONE: 1}, (5, 1)), ({Y: 2}, (1, 8))])
def test_a_polynomial_of_one_size_keeps_to_it(one: Polynomial, shape: tuple[int, int]) -> None:
    assert POWERS.polynomial(one).shape == shape


def test_whole_coefficients_stay_whole_numbers() -> None:
    assert all(type(c) is int for c in add({X: 1, Y: 2}, {X: 2, ONE: 5}).values())
