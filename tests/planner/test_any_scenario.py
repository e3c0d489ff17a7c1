"""Any question that the schema allows is answered or refused by field; nothing else is ever raised."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_db import load_tables
from planner.accuracy.predict import prediction_for
from planner.checks.codes import CODES
from planner.checks.job import BOTH, SERVERS, TRAINERS
from planner.cli.report import plan_lines
from planner.cli.words import line
from planner.estimate import plan
from planner.issues import Issue, ScenarioError, Severity
from planner.plan_json import plan_document
from planner.plan_types import Plan
from planner.scenario import Scenario
from planner.validation import parse_scenario
from tests.planner.test_link import SCHEMA, strategy

TABLES = load_tables()
BLOCKS = {name: strategy(node) for name, node in SCHEMA["properties"].items()}
ADAPTER = SCHEMA["$defs"]["Adapter"]["properties"]
DEGREES = st.sampled_from([1, 1, 1, 2, 4, 8])


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    """Real models and cards, the rest anything; degrees small enough that many a job is possible."""
    task = draw(BLOCKS["task"])
    cards = st.fixed_dictionaries({"gpu": st.sampled_from(list(TABLES.gpus)), "count": DEGREES})
    asked: dict[str, Any] = {
        "task": task,
        "model": {"id": draw(st.sampled_from(list(TABLES.models)))},
        "hardware": {"devices": draw(st.lists(cards, min_size=1, max_size=2))},
        "runtime": {"name": draw(st.sampled_from((*(SERVERS if task == "serve" else TRAINERS), *BOTH)))},
        "parallel": draw(_parallel()),
    }
    for block in ("training", "serving", "workload"):
        if draw(st.booleans()):
            asked[block] = draw(BLOCKS[block])
    if task in {"lora", "qlora"}:
        targets = draw(st.sampled_from(["all_linear", ["q_proj", "v_proj"]]))
        asked["adapter"] = {"method": draw(strategy(ADAPTER["method"])), "targets": targets}
    return asked


@st.composite
def _parallel(draw: st.DrawFn) -> dict[str, Any]:
    if draw(st.booleans()):
        return {}
    block: dict[str, Any] = draw(BLOCKS["parallel"])
    for name in ("data", "stages", "pipeline_layers", "sharding_degree"):
        block.pop(name, None)
    for name in block.keys() & {"tensor", "pipeline", "context", "expert", "expert_tensor", "virtual_stages"}:
        block[name] = draw(DEGREES)
    return block


def answered(scenario: Scenario) -> Plan | tuple[Issue, ...]:
    """The plan, or why there is none."""
    try:
        return plan(scenario, TABLES)
    except ScenarioError as refusal:
        return refusal.issues


@settings(max_examples=200, deadline=None)
@given(questions())
def test_it_is_answered_or_refused_by_field(asked: dict[str, Any]) -> None:
    scenario, problems = parse_scenario(asked)
    assert scenario is not None, problems
    answer = answered(scenario)
    if not isinstance(answer, Plan):
        assert answer[0].severity is Severity.ERROR
        assert all(issue.field for issue in answer)
        return
    # A card that llama.cpp is told to leave alone (`split_mode: none`), or that Ollama has no room on, holds nothing.
    assert all(device.peak_bytes >= 0 for device in answer.devices)
    assert answer.worst.peak_bytes > 0 or answer.host.memory_bytes > 0
    assert all(entry.bytes > 0 for device in answer.devices for entry in device.ledger.entries)
    for issue in answer.issues:
        assert CODES[issue.code].severity is issue.severity is not Severity.ERROR
        assert line(issue)
    assert list(plan_lines(answer))
    assert json.loads(json.dumps(plan_document(answer)))["verdict"] == answer.verdict
    assert not prediction_for(scenario, "any", TABLES).reason
