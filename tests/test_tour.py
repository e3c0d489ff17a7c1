"""docs/tour.md: every file and function it names exists, and its figures are the plan's own."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.validation import parse_scenario

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`((?:planner|ui|profiler|hardware_db|tests|examples)/[\w./:-]+)`", PAGE)))


def defined(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.parametrize("name", NAMED)
def test_what_the_tour_names_exists(name: str) -> None:
    path, _, function = name.partition(":")
    assert (ROOT / path).exists()
    assert not function or function in defined(path)


def test_the_tour_names_many() -> None:
    assert len(NAMED) > 40


def test_its_figures_are_the_plans() -> None:
    text = (ROOT / "examples" / "llama-3.1-8b-full-8xh100.json").read_text(encoding="utf-8")
    scenario, issues = parse_scenario(json.loads(text))
    assert scenario is not None, issues
    made = plan(scenario, load_tables())
    assert f"{made.model.params_total:,} parameters" in PAGE
    assert len(made.devices) == 1
    for name in ("optimizer_states", "checkpointed_inputs"):
        entry = next(entry for entry in made.worst.ledger.entries if entry.name == name)
        (row,) = (line for line in PAGE.splitlines() if line.strip().startswith(f"| `{name}` |"))
        assert f"| `{entry.formula}` |" in row
        assert f"| {entry.bytes:,} |" in row
        assert all(f"{symbol} = {value:,}" in row for symbol, value in entry.symbols)
