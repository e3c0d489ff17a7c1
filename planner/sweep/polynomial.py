"""Polynomials in the two sizes of a sweep, exact: powers of (x, y) with a whole number or a fraction each."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

Power = tuple[int, int]
Coefficient = Fraction | int
"""Whole numbers are kept as such where they are seen to be whole: they are worked with much faster."""
Polynomial = Mapping[Power, Coefficient]
"""Coefficients by the powers of x and y; no zero coefficient is kept."""

ZERO: Final[Polynomial] = {}
CONSTANT: Final[Power] = (0, 0)


def constant(value: Coefficient | float) -> Polynomial:
    """A number as a polynomial. A float is taken as the binary fraction it is."""
    return {CONSTANT: _reduced(Fraction(value))} if value else ZERO


def _reduced(amount: Fraction) -> Coefficient:
    return amount.numerator if amount.denominator == 1 else amount


def add(left: Polynomial, right: Polynomial) -> Polynomial:
    """Sum."""
    total = dict(left)
    for power, coefficient in right.items():
        total[power] = total.get(power, 0) + coefficient
    return {power: coefficient for power, coefficient in total.items() if coefficient}


def scaled(one: Polynomial, factor: Coefficient) -> Polynomial:
    """Every coefficient times a number."""
    return {power: coefficient * factor for power, coefficient in one.items()} if factor else ZERO


def multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    """Product."""
    total: dict[Power, Coefficient] = {}
    for (i, j), a in left.items():
        for (k, m), b in right.items():
            power = i + k, j + m
            total[power] = total.get(power, 0) + a * b
    return {power: coefficient for power, coefficient in total.items() if coefficient}


def as_constant(one: Polynomial) -> Coefficient | None:
    """The number a polynomial is, None where it depends on a size."""
    if not one:
        return 0
    return one[CONSTANT] if len(one) == 1 and CONSTANT in one else None


def is_whole(one: Polynomial) -> bool:
    """Whether every value at whole sizes is whole because each coefficient is."""
    return all(coefficient.denominator == 1 for coefficient in one.values())


def value_at(one: Polynomial, x: int, y: int) -> Coefficient:
    """The exact value at one point."""
    total: Coefficient = 0
    for (i, j), coefficient in one.items():
        size: int = x**i * y**j
        total += coefficient * size
    return total


def bilinear(
    xs: tuple[int, int], ys: tuple[int, int], corners: tuple[tuple[Fraction, ...], ...]
) -> Polynomial:
    """The only a + b*x + c*y + d*x*y through the corners of a rectangle.

    Args:
        xs: First and last x; equal for a single column of points.
        ys: First and last y; equal for a single row.
        corners: Values by (x, y), each index 0 = first, 1 = last.
    """
    low = _line(ys, corners[0])
    if xs[0] == xs[1]:
        return low
    slope = scaled(add(_line(ys, corners[1]), scaled(low, -1)), Fraction(1, xs[1] - xs[0]))
    found = add(low, multiply(slope, {(1, 0): 1, CONSTANT: -xs[0]}))
    return {power: _reduced(Fraction(coefficient)) for power, coefficient in found.items()}


def _line(ys: tuple[int, int], ends: tuple[Fraction, ...]) -> Polynomial:
    if ys[0] == ys[1]:
        return constant(ends[0])
    slope = _reduced((ends[1] - ends[0]) / (ys[1] - ys[0]))
    return add(constant(ends[0] - slope * ys[0]), {(0, 1): slope} if slope else ZERO)
