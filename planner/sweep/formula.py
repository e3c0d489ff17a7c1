"""The formula of a ledger entry as a program over the two sizes of a sweep.

A formula holds numbers, symbols, ``+ - * /``, ``ceil``, ``max`` and ``min``, nothing else. With symbols that are
polynomials of the sizes it is itself a polynomial, or a call of polynomials.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from planner.sweep.polynomial import (
    Coefficient,
    Polynomial,
    add,
    as_constant,
    constant,
    is_whole,
    multiply,
    scaled,
    value_at,
)

Whole = NDArray[np.int64]
LARGEST: Final = 1 << 62
"""Beyond this a product could wrap in 64 bits."""


class NotExpressibleError(Exception):
    """The formula cannot be worked out for a whole region in 64-bit whole numbers."""


class Node(Protocol):
    """A formula that is no polynomial."""

    def whole(self, powers: "Powers") -> Whole:
        """Values at every point."""
        ...


@dataclass(frozen=True, slots=True)
class Powers:
    """The points of a region: x down, y across, and the size no coefficient may carry them beyond.

    Args:
        x: First size, shape (n, 1).
        y: Second size, shape (1, m).
    """

    x: Whole
    y: Whole

    def polynomial(self, one: Polynomial) -> Whole:
        """A polynomial with whole coefficients at every point, by Horner's rule; shape (1, 1) up to (n, m)."""
        by_y: dict[int, Whole] = {}
        for (i, j), coefficient in one.items():
            term: Whole = np.full((1, 1), int(coefficient), np.int64)
            for _ in range(i):
                term = term * self.x
            by_y[j] = by_y[j] + term if j in by_y else term
        most = max(by_y, default=0)
        total: Whole = by_y.get(most, np.zeros((1, 1), np.int64))
        for j in range(most - 1, -1, -1):
            total = total * self.y
            if j in by_y:
                total = total + by_y[j]
        return total


@dataclass(frozen=True, slots=True)
class Ceil:
    """A polynomial rounded up: whole numerator over a whole denominator."""

    numerator: Polynomial
    denominator: int

    def whole(self, powers: Powers) -> Whole:
        """Values at every point."""
        return -(-powers.polynomial(self.numerator) // self.denominator)


@dataclass(frozen=True, slots=True)
class Extreme:
    """The largest or smallest of several whole formulas."""

    largest: bool
    parts: tuple["Formula", ...]

    def whole(self, powers: Powers) -> Whole:
        """Values at every point."""
        pick = np.maximum if self.largest else np.minimum
        found = [values(part, powers) for part in self.parts]
        result = found[0]
        for other in found[1:]:
            result = pick(result, other)
        return result


@dataclass(frozen=True, slots=True)
class Sum:
    """Formulas that are added up."""

    parts: tuple["Formula", ...]

    def whole(self, powers: Powers) -> Whole:
        """Values at every point."""
        total: Whole = np.zeros((1, 1), np.int64)
        for part in self.parts:
            total = total + values(part, powers)
        return total


@dataclass(frozen=True, slots=True)
class Times:
    """A formula a whole number of times."""

    part: "Formula"
    factor: Polynomial

    def whole(self, powers: Powers) -> Whole:
        """Values at every point."""
        return values(self.part, powers) * powers.polynomial(self.factor)


Formula = Polynomial | Ceil | Extreme | Sum | Times


def values(formula: Formula, powers: Powers) -> Whole:
    """A whole formula at every point of a region."""
    return powers.polynomial(formula) if isinstance(formula, Mapping) else formula.whole(powers)


def program(text: str, symbols: Mapping[str, Polynomial], corner: tuple[int, int]) -> Formula:
    """A formula with its symbols put in.

    Args:
        text: As a ledger entry states it.
        symbols: Each symbol as a polynomial of the sizes.
        corner: The largest sizes of the region.

    Raises:
        NotExpressibleError: It is not whole, or may leave 64 bits.
    """
    return _checked(_node(parsed(text), symbols), corner)


@lru_cache(maxsize=4096)
def parsed(text: str) -> ast.expr:
    """The syntax tree of a formula."""
    return ast.parse(text, mode="eval").body


def _node(node: ast.expr, symbols: Mapping[str, Polynomial]) -> Formula:
    match node:
        case ast.Constant(value=int() | float() as number):
            return constant(number)
        case ast.Name():
            return symbols[node.id]
        case ast.BinOp(op=sign) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_node(node.left, symbols), _node(node.right, symbols))
        case ast.Call(func=ast.Name(id="ceil"), args=[argument]):
            return _ceil(_node(argument, symbols))
        case ast.Call(func=ast.Name(id="max" | "min" as name)):
            return _extreme(name == "max", [_node(argument, symbols) for argument in node.args])
        case _:
            raise NotExpressibleError(ast.dump(node))


def _add(left: Formula, right: Formula) -> Formula:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return add(left, right)
    return Sum((left, right))


def _subtract(left: Formula, right: Formula) -> Formula:
    return _add(left, _multiply(constant(-1), right))


def _multiply(left: Formula, right: Formula) -> Formula:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return multiply(left, right)
    if isinstance(left, Mapping):
        return _times(right, left)
    if isinstance(right, Mapping):
        return _times(left, right)
    raise NotExpressibleError("a product of two calls")


def _times(part: Formula, factor: Polynomial) -> Formula:
    if not is_whole(factor):
        raise NotExpressibleError("a fraction of a call")
    return Times(part, factor)


def _divide(left: Formula, right: Formula) -> Formula:
    divisor = as_constant(right) if isinstance(right, Mapping) else None
    if not divisor or not isinstance(left, Mapping):
        raise NotExpressibleError("a division by a size or of a call")
    return scaled(left, Fraction(1) / divisor)


_OPERATORS: Final[dict[type[ast.operator], Callable[[Formula, Formula], Formula]]] = {
    ast.Add: _add,
    ast.Sub: _subtract,
    ast.Mult: _multiply,
    ast.Div: _divide,
}


def _ceil(argument: Formula) -> Formula:
    if not isinstance(argument, Mapping):
        return argument
    if is_whole(argument):
        return argument
    fixed = as_constant(argument)
    if fixed is not None:
        return constant(-(-fixed // 1))
    denominator = _common([coefficient.denominator for coefficient in argument.values()])
    return Ceil(scaled(argument, denominator), denominator)


def _extreme(largest: bool, parts: Sequence[Formula]) -> Formula:
    fixed = [as_constant(part) if isinstance(part, Mapping) else None for part in parts]
    known = [number for number in fixed if number is not None]
    if len(known) == len(parts):
        return constant(max(known) if largest else min(known))
    return Extreme(largest, tuple(parts))


def _common(denominators: Sequence[int]) -> int:
    return int(np.lcm.reduce(np.array(denominators, dtype=object)))


def _checked(formula: Formula, corner: tuple[int, int]) -> Formula:
    _bound(formula, corner)
    return formula


def _bound(formula: Formula, corner: tuple[int, int]) -> Coefficient:
    """A size no partial result exceeds anywhere up to the corner.

    Raises:
        NotExpressibleError: It is beyond 64 bits, or the formula is not whole.
    """
    match formula:
        case Ceil():
            found = _bound(formula.numerator, corner)
        case Extreme():
            found = max(_bound(part, corner) for part in formula.parts)
        case Sum():
            found = sum([_bound(part, corner) for part in formula.parts])
        case Times():
            found = _bound(formula.part, corner) * _bound(formula.factor, corner)
        case _:
            if not is_whole(formula):
                raise NotExpressibleError("not whole")
            found = value_at(
                {power: max(coefficient, -coefficient) for power, coefficient in formula.items()}, *corner
            )
    if found > LARGEST:
        raise NotExpressibleError("beyond 64 bits")
    return found
