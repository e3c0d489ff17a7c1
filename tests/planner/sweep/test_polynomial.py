"""Exact polynomials of two sizes."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from planner.sweep.polynomial import add, as_constant, bilinear, constant, is_whole, multiply, value_at

NUMBERS = st.fractions(min_value=-100, max_value=100, max_denominator=12)
POWERS = st.tuples(st.integers(0, 2), st.integers(0, 2))
POLYNOMIALS = st.dictionaries(POWERS, NUMBERS.filter(bool), max_size=5)
SIZES = st.integers(1, 1000)


@given(POLYNOMIALS, POLYNOMIALS, SIZES, SIZES)
def test_sums_and_products_of_values_are_values_of_sums_and_products(
    left: dict[tuple[int, int], Fraction], right: dict[tuple[int, int], Fraction], x: int, y: int
) -> None:
    assert value_at(add(left, right), x, y) == value_at(left, x, y) + value_at(right, x, y)
    assert value_at(multiply(left, right), x, y) == value_at(left, x, y) * value_at(right, x, y)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS, SIZES, SIZES, SIZES, SIZES)
def test_a_bilinear_rule_is_found_from_its_corners(
    a: Fraction, b: Fraction, c: Fraction, d: Fraction, x: int, wide: int, y: int, tall: int
) -> None:
    def rule(i: int, j: int) -> Fraction:
        return a + b * i + c * j + d * i * j

    xs, ys = (x, x + wide), (y, y + tall)
    found = bilinear(xs, ys, tuple(tuple(rule(i, j) for j in ys) for i in xs))
    assert value_at(found, 7, 11) == rule(7, 11)


def test_one_row_one_column_and_one_point_of_a_rule() -> None:
    one, two = Fraction(5), Fraction(9)
    assert bilinear((3, 3), (4, 4), ((one, one), (one, one))) == constant(5)
    assert value_at(bilinear((3, 3), (4, 6), ((one, two), (one, two))), 3, 5) == 7
    assert value_at(bilinear((3, 5), (4, 4), ((one, one), (two, two))), 4, 4) == 7


def test_constants_and_wholeness() -> None:
    assert as_constant(constant(0)) == 0
    assert as_constant({(1, 0): Fraction(2)}) is None
    assert is_whole({(1, 1): Fraction(3)})
    assert not is_whole({(0, 0): Fraction(1, 2)})
