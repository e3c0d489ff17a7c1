"""Every entry prints the formula that gave its bytes, and cites a reference."""

from __future__ import annotations

import pytest

from planner.estimate import plan
from planner.issues import ScenarioError
from planner.ledger import Category
from planner.memory.serving_entry import FormulaError, entry, evaluate
from planner.plan_types import Plan
from planner.references import REFERENCES
from tests.planner.serving.cases import tables, truth, truth_scenario


def planned(record: dict[str, object]) -> Plan | None:
    """The plan of a record, None where the question is refused."""
    try:
        return plan(truth_scenario(record), tables())
    except ScenarioError:
        return None


RECORDS = [*truth("serving.jsonl"), *truth("serving_fits.jsonl")]


@pytest.mark.parametrize("record", RECORDS, ids=[r["id"] for r in RECORDS])
def test_formula_symbols_and_reference_of_every_entry(record: dict[str, object]) -> None:
    made = planned(record)
    if made is None:
        return
    for device in made.devices:
        for item in device.ledger.entries:
            assert round(evaluate(item.formula, item.symbols)) == item.bytes, item
            assert item.bytes > 0
            assert item.reference in REFERENCES, item.reference


@pytest.mark.parametrize(
    ("formula", "symbols", "value"),
    [
        ("2*3 + 4", (), 10),
        ("(a - b)/4", (("a", 10), ("b", 2)), 2),
        ("ceil(a/16)*16", (("a", 17),), 32),
        ("max(a, min(b, 7))", (("a", 1), ("b", 9)), 7),
    ],
)
def test_the_grammar(formula: str, symbols: tuple[tuple[str, int], ...], value: float) -> None:
    assert evaluate(formula, symbols) == value


@pytest.mark.parametrize(
    "formula", ["a**2", "a.b", "a[0]", "open('x')", "a if b else c", "-a", "'text'", "a +", "ceil(x=1)"]
)
def test_nothing_else_is_a_formula(formula: str) -> None:
    with pytest.raises(FormulaError):
        evaluate(formula, (("a", 1), ("b", 2), ("c", 3)))


def test_a_symbol_without_a_value_is_an_error() -> None:
    with pytest.raises(FormulaError, match="missing"):
        evaluate("missing*2", ())


def test_an_entry_is_never_negative() -> None:
    assert entry(Category.WEIGHTS, "x", "a - b", (("a", 1), ("b", 5)), "kv_cache").bytes == 0
