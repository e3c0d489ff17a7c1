"""Formulas of divided jobs are those of PyTorch's own code, as traces of one rank show."""

from itertools import pairwise

import pytest

from benchmarks.formula_divided_cases import CASES, cases, document
from benchmarks.formula_trace import FAR, NEAR, Compared
from benchmarks.formula_trace_divided import QUICK, is_met, rows_of
from planner.ledger import TRAINING_PHASES


def traced(names: frozenset[str]) -> list[Compared]:
    rows, missing = rows_of(case for case in cases() if case.name in names)
    assert not missing
    assert {row.name for row in rows} == names
    return rows


def test_quick_steps_are_within_half_a_percent_in_every_phase_but_known_ones() -> None:
    known = {("1b-tp8-fp32-ckpt-s2048", "forward")}  # temporaries of the composed attention in fp32
    for row in traced(QUICK):
        errors = {phase.value: row.phase_error(phase.value) for phase in TRAINING_PHASES}
        assert abs(row.error) <= NEAR, (row.name, row.error)
        far = {(row.name, phase) for phase, error in errors.items() if abs(error) > NEAR}
        assert far <= known, (row.name, errors)


@pytest.mark.long
def test_all_steps() -> None:
    rows = traced(frozenset(case.name for case in cases()))
    errors = [row.error for row in rows]
    assert is_met(errors), {row.name: row.error for row in rows if abs(row.error) > NEAR}
    assert max(map(abs, errors)) <= FAR


def test_the_list_has_every_degree_format_and_habit_once() -> None:
    assert len(CASES) == len(set(CASES)) >= 40
    words = {word for case in CASES for word in case.split()}
    assert {
        "fp32",
        "bf16",
        "mixed",
        "ckpt",
        "kept",
        "sp",
        "lora",
        "fsdp2",
        "fsdp8",
        "fsdp64",
        "tp2",
        "tp8",
    } <= words
    assert frozenset(case.name for case in cases()) >= QUICK


def test_degrees_are_as_named() -> None:
    found = document("8b tp2 fsdp4 mixed sp")
    assert found["hardware"]["devices"][0]["count"] == 8
    assert found["parallel"] == {"tensor": 2, "sharding": "fsdp", "sharding_degree": 4, "sequence": True}
    assert document("1b fsdp4 mixed hsdp8")["hardware"]["devices"][0]["count"] == 8
    assert document("8b ddp8 bf16")["parallel"] == {"tensor": 1, "sharding": "none"}


def test_a_target_is_met_by_nearness() -> None:
    near, wide = [0.0] * 19, [0.0] * 18
    assert is_met([*near, 0.019])
    assert not is_met([*near, 0.021])
    assert not is_met([*wide, 0.006, 0.006])
    assert all(is_met([a, b]) for a, b in pairwise((0.001, -0.004, 0.0)))
