"""A diagnosis on the terminal has sentences for every code, and none of its ids."""

from __future__ import annotations

import json
import re

import pytest

import run
from hardware_db import load_tables
from planner.cli import diagnose_words
from planner.cli.diagnose import BASES, diagnosis_lines, waiting_lines
from planner.cli.diagnose_sentences import CHECKS, FIXES, PLANNED, REMARKS, SIGNS, TENSORS, VAIN, VAIN_REASONS
from planner.diagnose import diagnose
from planner.diagnose import fixes as of_fixes
from planner.diagnose.checklist import ITEMS
from planner.diagnose.layers import Basis
from planner.diagnose.tensors import SOURCES
from planner.diagnose.vain import BATCH_IS_NOT_IT
from planner.estimate import plan
from planner.issues import Param
from planner.units import GIB
from planner.validation import parse_scenario
from tests.planner.diagnose.cases import MESSAGES

TABLES = load_tables()
FOLDER = run.ROOT / "planner" / "diagnose"


def literals(function: str, name: str) -> set[str]:
    """Codes that a module hands to a function."""
    return set(re.findall(rf'\b{function}\(\s*"(\w+)"', (FOLDER / name).read_text(encoding="utf-8")))


def test_every_code_has_a_sentence() -> None:
    groups = [*of_fixes._OUTSIDE.values(), *of_fixes._BY_PHASE.values(), *of_fixes._BY_TENSOR.values()]
    groups += [
        *of_fixes._BY_FORM.values(),
        *of_fixes._UNPLANNED.values(),
        of_fixes._KV,
        of_fixes._HOST_OF_ENGINE,
    ]
    groups += [of_fixes._OF_LLAMA_WEIGHTS, tuple(of_fixes.OUTSIDE_WORDS.values()), ("cap_longest_row",)]
    codes = {code for group in groups for code in group}
    assert codes - of_fixes._PLANNED <= FIXES.keys()
    assert PLANNED.keys() >= of_fixes._PLANNED
    assert literals("_remark", "remarks.py") <= REMARKS.keys()
    assert literals("_sign", "communication.py") | literals("_judged", "communication.py") <= SIGNS.keys()
    assert {f"{item}.item" for item in ITEMS} <= CHECKS.keys()
    assert SOURCES.keys() <= TENSORS.keys()
    assert {
        *BATCH_IS_NOT_IT.values(),
        "already_one",
        "done_before_it_raised",
    } <= VAIN_REASONS.keys()
    assert "smaller_batch" in VAIN
    assert set(BASES) == set(Basis)


@pytest.mark.parametrize("name", ["llama-3.1-8b-full-8xh100", "llama-3.1-70b-vllm-4xh100"])
def test_no_line_has_an_id_or_an_open_place(name: str) -> None:
    scenario, _ = parse_scenario(
        json.loads((run.ROOT / "examples" / f"{name}.json").read_text(encoding="utf-8"))
    )
    assert scenario is not None
    made = plan(scenario, TABLES)
    lines = [line for message in MESSAGES for line in diagnosis_lines(diagnose(message["text"], made))]
    lines += waiting_lines(made, TABLES, diagnose("", made))
    assert len(lines) > 100
    assert [line for line in lines if re.search(r"[{}]|\bNone\b|\bfrac\b|process_rest", line)] == []


def test_values_are_worded() -> None:
    params: list[tuple[str, Param]] = [
        ("a_bytes", GIB),
        ("b_frac", 0.526),
        ("part", "weights_read"),
        ("n", 12000),
        ("none", None),
    ]
    assert list(diagnose_words.values(params).values()) == ["1.00", "53%", "reading weights", "12,000", "-"]
