"""Serving questions of published threads, answered: `python -m benchmarks.serving_scenarios`.

`tests/data/mapped_serving.jsonl` says for each row of `scenarios.jsonl` what is asked (field, operator, value)
and which rows are left out because what they tell does not settle the answer. It was written before anything
was answered; this prints what the planner says today.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.answer_table import answer_table
from hardware_db import load_tables
from planner.accuracy.predict import Figure, prediction_for
from planner.estimate import plan
from planner.hardware import Tables
from planner.issues import ScenarioError
from planner.plan_types import Plan
from planner.resolve import apply
from planner.scenario import Scenario
from planner.serving.ledgers import cache_bytes
from planner.validation import parse_scenario

MAPPED: Final = Path(__file__).parents[1] / "tests" / "data" / "mapped_serving.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One thing asked, with its answer.

    Attributes:
        row: Id in `scenarios.jsonl`.
        field: What is asked.
        wanted: The value that the thread established.
        found: What the planner says; None where it says nothing.
        right: Whether it is within the row's own tolerance.
    """

    row: str
    field: str
    wanted: Figure
    found: Figure
    right: bool


def rows() -> list[dict[str, Any]]:
    """The mapped rows, in file order."""
    return [json.loads(line) for line in MAPPED.read_text(encoding="utf-8").splitlines()]


def answers(tables: Tables) -> list[Answered]:
    """Every question with its answer."""
    return [
        _answered(row["id"], asked, _scenario(question["scenario"]), tables)
        for row in rows()
        for question in row.get("questions", ())
        for asked in question["asks"]
    ]


def _scenario(document: dict[str, Any]) -> Scenario:
    scenario, issues = parse_scenario(document)
    if scenario is None:
        raise ValueError(f"a mapped scenario does not parse: {issues}")
    return scenario


def _answered(row: str, asked: dict[str, Any], scenario: Scenario, tables: Tables) -> Answered:
    found = _figure(asked, scenario, tables)
    right = found is not None and _agrees(asked, found)
    return Answered(row=row, field=asked["field"], wanted=asked["value"], found=found, right=right)


def _figure(asked: dict[str, Any], scenario: Scenario, tables: Tables) -> Figure:
    name = asked["field"]
    if name in {"fits", "weights_bytes", "kv_bytes_per_token"}:
        return prediction_for(scenario, asked["rank"], tables).figures.get(name)
    try:
        answer = plan(scenario, tables)
    except ScenarioError:
        return None
    return _of_plan(name, answer, asked, tables)


def _of_plan(name: str, answer: Plan, asked: dict[str, Any], tables: Tables) -> Figure:
    served, ledger = answer.serving, answer.worst.ledger
    if served is None:
        return None
    if name == "load_kv_bytes":
        return cache_bytes(ledger)
    if name == "longest_context_tokens":
        return served.longest_context_tokens
    if name == "kv_pool_bytes":
        return served.kv_pool_bytes
    if name == "pool_tokens":
        return int(asked["pool_bytes"] // served.kv_bytes_per_token)
    if name == "expert_weights_share":
        return _expert_share(answer, tables)
    raise ValueError(f"a mapped row asks for {name!r}")


def _expert_share(answer: Plan, tables: Tables) -> float:
    """Routed experts of one card over those of a card that holds the whole model."""
    asked = answer.scenario
    one = (asked.hardware.devices[0].model_copy(update={"count": 1}),)
    hardware = asked.hardware.model_copy(update={"devices": one})
    alone = apply(
        asked.model_copy(update={"hardware": hardware}), {"parallel.tensor": 1, "parallel.expert": 1}
    )
    whole = plan(alone, tables).worst.ledger.total("weights_experts")
    return answer.worst.ledger.total("weights_experts") / whole


def _agrees(asked: dict[str, Any], found: float | bool) -> bool:
    wanted = asked["value"]
    if asked["operator"] == "equals":
        return bool(found == wanted)
    slack = asked.get("tolerance_bytes", asked.get("tolerance_frac", 0.0) * wanted)
    return bool(abs(found - wanted) <= slack)


def table(found: list[Answered], left_out: list[dict[str, Any]]) -> str:
    """The answers as lines: right ones, wrong ones, and what was left out with its reason."""
    return answer_table(found, left_out, _shown, 20)


def _shown(value: Figure) -> str:
    if value is None or isinstance(value, bool):
        return str(value)
    return f"{value:,.4f}" if isinstance(value, float) else f"{value:,}"


def main() -> None:
    """Print the table."""
    print(table(answers(load_tables()), [row for row in rows() if "left_out" in row]))


if __name__ == "__main__":
    main()
