"""Formulas as programs: the same values as their symbols put in by hand."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest

from planner.sweep.formula import NotExpressibleError, Powers, program, values
from planner.sweep.polynomial import Polynomial, constant
from tests.planner.memory.test_working import evaluate

X: Polynomial = {(1, 0): Fraction(1)}
Y: Polynomial = {(0, 1): Fraction(1)}
T: Polynomial = {(1, 1): Fraction(1)}
SYMBOLS: Mapping[str, Polynomial] = {"b": X, "s": Y, "t": T, "h": constant(4096), "c": constant(9.5)}
XS, YS = (1, 2, 3, 7, 64), (1, 5, 128, 1000, 4096)


@pytest.mark.parametrize(
    "formula",
    [
        "t*h*2",
        "ceil(t/3)",
        "ceil(c*t*h)",
        "ceil(c*t)",
        "2*b*s*s + 8*(t + s) - 4",
        "max(t*h, 3*s*s)",
        "min(ceil(t/7), 100) + h",
        "2*max(b*10, s) - s",
        "max(3, 4)*t",
        "7*t",
        "ceil(h/7)*b",
    ],
)
def test_every_value_of_a_region_is_the_formulas(formula: str) -> None:
    powers = Powers(np.array(XS)[:, None], np.array(YS)[None, :])
    found = np.broadcast_to(values(program(formula, SYMBOLS, (64, 4096)), powers), (len(XS), len(YS)))
    for i, b in enumerate(XS):
        for j, s in enumerate(YS):
            sizes = {"b": b, "s": s, "t": b * s, "h": 4096}
            put_in = {name: Fraction(size) for name, size in sizes.items()} | {"c": Fraction(9.5)}
            assert found[i, j] == evaluate(formula, put_in), (b, s)


@pytest.mark.parametrize(
    "formula",
    ["t/2", "h/s", "max(t, s)*max(b, s)", "0.5*max(b, s)", "b**2", "floor(b)", "t*t*t*t*t", "max(t, s/3)"],
)
def test_what_is_not_whole_or_has_no_rule_is_refused(formula: str) -> None:
    with pytest.raises(NotExpressibleError):
        program(formula, SYMBOLS, (1 << 12, 1 << 20))
