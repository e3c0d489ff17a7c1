"""Answers to documents: parsed, checked, planned, and remembered. Nothing of Streamlit in here."""

import json
from dataclasses import dataclass
from functools import lru_cache

from hardware_db import load_tables
from planner.estimate import plan
from planner.hardware import Tables
from planner.issues import Issue, ScenarioError, Severity
from planner.plan_types import Plan
from planner.scenario import Scenario
from planner.validation import parse_scenario
from ui import kept_runs
from ui.document import Document, canonical
from ui.kept_runs import Stamp, stamp, with_kept

REMEMBERED = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a document leads to.

    Attributes:
        scenario: The parsed question, None where the document breaks the schema.
        plan: The answer, None where the question has errors.
        issues: Errors, warnings and notes, by field.
    """

    scenario: Scenario | None
    plan: Plan | None
    issues: tuple[Issue, ...]

    @property
    def errors(self) -> tuple[Issue, ...]:
        """The issues that stop the plan."""
        return tuple(issue for issue in self.issues if issue.severity is Severity.ERROR)


def tables() -> Tables:
    """The project's own tables, read once."""
    return load_tables()


def answer(document: Document) -> Answer:
    """Plan a document. Never raises for what a person can enter."""
    return _answer(canonical(document), stamp())


def tables_for(scenario: Scenario) -> Tables:
    """The tables that this question is planned with: its band may come from runs the user kept."""
    return kept_runs.tables_for(scenario)


@lru_cache(maxsize=REMEMBERED)
def _answer(text: str, _kept: Stamp) -> Answer:
    scenario, issues = parse_scenario(json.loads(text))
    if scenario is None:
        return Answer(scenario=None, plan=None, issues=issues)
    try:
        found = with_kept(plan(scenario, tables_for(scenario)))
    except ScenarioError as error:
        return Answer(scenario=scenario, plan=None, issues=error.issues)
    return Answer(scenario=scenario, plan=found, issues=found.issues)
