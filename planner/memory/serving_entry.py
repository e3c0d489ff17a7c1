"""Ledger entries of a server, built so that their printed formula is what was computed.

A formula is written in a small grammar (numbers, symbols, ``+ - * /``, brackets, ``ceil``, ``min``,
``max``). The bytes of an entry are that formula with its symbols put in, so the page can never print one
thing and sum another.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from planner.ledger import Category, Entry, Layer, Phase, Symbol

Values = Mapping[str, int | float]
Term = Callable[[Values], int | float]

RUNNING: Final = frozenset({Phase.REST, Phase.PREFILL, Phase.DECODE})
LOADED: Final = frozenset({Phase.LOAD, *RUNNING})
WORKING: Final = frozenset({Phase.PREFILL, Phase.DECODE})
PHASES: Final = (Phase.LOAD, Phase.REST, Phase.PREFILL, Phase.DECODE)
"""What a server goes through: loading the weights, ready, reading a prompt, writing an answer."""

_OPERATORS: Final[dict[type[ast.operator], Callable[..., int | float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: Final[dict[str, Callable[..., int | float]]] = {"ceil": math.ceil, "min": min, "max": max}


class FormulaError(ValueError):
    """A formula outside the grammar, or a symbol without a value. A mistake in the code, not in the input."""


def evaluate(formula: str, symbols: tuple[Symbol, ...]) -> int | float:
    """The value of a formula.

    Args:
        formula: Text in the grammar of this module.
        symbols: Every symbol of the formula with its value.

    Raises:
        FormulaError: The formula uses something else, or a symbol has no value.
    """
    try:
        return _compiled(formula)(dict(symbols))
    except KeyError as error:
        raise FormulaError(f"{formula}: no value for {error}") from error


@lru_cache(maxsize=4096)
def _compiled(formula: str) -> Term:
    try:
        return _term(ast.parse(formula, mode="eval").body)
    except SyntaxError as error:
        raise FormulaError(f"{formula}: {error.msg}") from error


def _term(node: ast.expr) -> Term:
    match node:
        case ast.Constant(value=int() | float() as number):
            return lambda _values: number
        case ast.Name(id=name):
            return lambda values: values[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _binary(_OPERATORS[type(op)], _term(left), _term(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _call(_FUNCTIONS[name], tuple(_term(arg) for arg in args))
    raise FormulaError(f"not in the grammar: {ast.unparse(node)}")


def _binary(apply: Callable[..., int | float], left: Term, right: Term) -> Term:
    return lambda values: apply(left(values), right(values))


def _call(apply: Callable[..., int | float], args: tuple[Term, ...]) -> Term:
    return lambda values: apply(*(arg(values) for arg in args))


def entry(
    category: Category,
    name: str,
    formula: str,
    symbols: tuple[Symbol, ...],
    reference: str,
    *,
    phases: frozenset[Phase] = LOADED,
    layer: Layer = Layer.ALLOCATED,
    estimate: bool = False,
) -> Entry:
    """An entry whose bytes are its formula, rounded to a whole byte and never below zero."""
    size = max(0, round(evaluate(formula, symbols)))
    return Entry(category, name, size, phases, formula, symbols, reference, layer, estimate)
