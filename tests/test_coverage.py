"""docs/coverage.md: every row of the founding articles is there, and every file and test it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
COUNTS = {"A": 7, "B": 20, "C": 10, "D": 9, "E": 6, "F": 2, "G": 36}
ROWS = {
    cells[0]: cells[1:]
    for line in PAGE.splitlines()
    if len(cells := [cell.strip() for cell in line.strip("|").split(" | ")]) == 4
    and re.fullmatch(r"[A-G]\d{1,2}", cells[0])
}
OPEN = "open: "


def named(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_row_is_there_once() -> None:
    expected = [f"{group}{number}" for group, last in COUNTS.items() for number in range(1, last + 1)]
    assert sorted(ROWS) == sorted(expected)
    assert len(expected) == 90
    assert len(re.findall(r"^\| [A-G]\d{1,2} \|", PAGE, flags=re.MULTILINE)) == 90


@pytest.mark.parametrize("row", ROWS)
def test_what_a_row_names_exists(row: str) -> None:
    _, where, pinned = ROWS[row]
    places = named(where)
    assert [place for place in places if not (ROOT / place).exists()] == []
    if pinned.startswith(OPEN):
        assert len(pinned) > 30, "an open row says why"
        return
    assert places, "a covered row names its module"
    tests = named(pinned)
    assert tests, "a covered row names its test"
    for test in tests:
        path, _, name = test.partition("::")
        assert name in functions(path), test
