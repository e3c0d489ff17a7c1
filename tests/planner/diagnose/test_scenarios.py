"""The published scenarios about failures, surprises, files and logs: the established cause of each, counted.

`tests/data/mapped_diagnosis.jsonl` holds what each row asks, written down before there was anything to answer it
(J058 and J059 when preferences and rewards could be asked about).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hardware_db import load_tables
from planner.diagnose import Diagnosis, diagnose
from planner.estimate import plan
from planner.plan_types import Plan
from planner.units import MIB
from planner.validation import parse_scenario

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[2] / "data"
KINDS = {"oom-diagnosis", "measured-surprise", "config-file", "log-file"}
ROWS: dict[str, dict[str, Any]] = {
    row["id"]: row
    for row in map(json.loads, (DATA / "mapped_diagnosis.jsonl").read_text(encoding="utf-8").splitlines())
}
ASKED = {name: row for name, row in ROWS.items() if "left_out" not in row}
# What is not answered right, and why; the count is part of what is claimed.
WRONG = {
    # The published file keeps a third copy of the matrix, in 16 bit: 2.35 GB with two, 3.40 with three.
    "J090": {"tied_head_bytes"},
    # The line's own figures put into the engine's own rule give 3,439 MiB (more than the 3.2 GiB that were free); the
    # thread's 4,362.9 takes a layer for 531 MiB where 34 of them and their cache are 2.3 GiB.
    "J139": {"minimum_bytes"},
}


def truth() -> dict[str, dict[str, Any]]:
    lines = (DATA / "truth" / "scenarios.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines) if row["kind"] in KINDS}


def answered(row: dict[str, Any]) -> tuple[Diagnosis, Plan | None]:
    made = None
    if row["scenario"] is not None:
        scenario, issues = parse_scenario(row["scenario"])
        assert scenario is not None, issues
        made = plan(scenario, load_tables())
    return diagnose(row["text"], made), made


def field(found: Diagnosis, made: Plan | None, name: str) -> Any:
    """The value of an asked field."""
    layers, record, tensor = found.layers, found.record, found.tensor
    own: dict[str, Callable[[], Any]] = {
        "cause": lambda: found.why.cause.value,
        "phase": lambda: found.phase,
        "tensor": lambda: tensor.name if tensor else None,
        "tensor_bytes": lambda: tensor.bytes if tensor else None,
        "fixes": lambda: {fix.code for fix in found.fixes},
        "first_fix": lambda: found.fixes[0].code,
        "not_helping": lambda: {vain.code for vain in found.vain},
        "remarks": lambda: {remark.code for remark in found.remarks},
        "identity_residue_bytes": lambda: layers.residue_bytes if layers else None,
        "unallocated_bytes": lambda: layers.bytes("unallocated") if layers else None,
        "outside_bytes": lambda: layers.bytes("outside") if layers else None,
        "own_bytes": lambda: record.bytes("own") if record else None,
        "device": lambda: record.device if record else None,
        "verdict": lambda: made.verdict.value if made else None,
        "plan_peak_bytes": lambda: made.worst.peak_bytes if made else None,
        "plan_phase_bytes": lambda: found.plan_phase_bytes,
        "tied_head_bytes": lambda: next((dict(r.params)["sum_bytes"] for r in found.remarks), None),
    }
    if name in own:
        return own[name]()
    figures = dict(found.figures)
    return figures[name] if name in figures else record.fact(name) if record is not None else None


def holds(value: Any, ask: dict[str, Any]) -> bool:
    match ask["operator"]:
        case "equals":
            return bool(value == ask["value"])
        case "holds":
            return ask["value"] in value
        case "within":
            return value is not None and abs(value / ask["value"] - 1) <= ask["tolerance_frac"]
        case "near":
            allowed = ask.get("tolerance_bytes", ask.get("tolerance"))
            return value is not None and abs(value - ask["value"]) <= allowed
    raise ValueError(ask["operator"])


def test_every_row_of_these_kinds_is_mapped_or_left_out_with_a_reason() -> None:
    assert truth().keys() == ROWS.keys()
    assert all(row["left_out"] for row in ROWS.values() if "left_out" in row)
    assert ROWS.keys() == ASKED.keys()


@pytest.mark.parametrize("name", ASKED)
def test_a_row_is_answered(name: str) -> None:
    row = ASKED[name]
    found, made = answered(row)
    wrong = {ask["field"] for ask in row["asks"] if not holds(field(found, made, ask["field"]), ask)}
    assert wrong == WRONG.get(name, set())


def test_the_engines_own_rule_says_why_it_refused() -> None:
    found, _ = answered(ASKED["J139"])
    least, record = dict(found.figures)["minimum_bytes"], found.record
    assert isinstance(least, int)
    assert record is not None
    assert least / MIB == pytest.approx(3439, abs=1)
    assert least > (record.bytes("free") or 0)


def test_the_count() -> None:
    asks = sum(len(row["asks"]) for row in ASKED.values())
    assert (len(ASKED), len(ASKED) - len(WRONG), asks, asks - sum(map(len, WRONG.values()))) == (
        23,
        21,
        61,
        59,
    )
