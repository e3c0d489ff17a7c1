"""A claim people repeat, beside what the planner finds."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from planner.estimate import plan
from planner.hardware import Tables
from planner.issues import Issue, ScenarioError
from planner.ledger import Symbol
from planner.plan_types import Plan
from planner.validation import parse_scenario

Unit = Literal[
    "bytes", "bytes_per_s", "frac", "ratio", "count", "number", "flags", "s", "days", "months", "usd",
    "bits", "tokens_per_s",
]  # fmt: skip


class Outcome(StrEnum):
    """What became of a claim."""

    RIGHT = "right"
    WRONG = "wrong"
    DEPENDS = "depends"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of a claim.

    Attributes:
        name: Stable id within the claim; locale files word it.
        said: What the claim says; None where it gives no number for this.
        found: What the planner finds.
        unit: Of both.
        formula: How it was found, in symbols; empty where a whole plan was made.
        symbols: Each symbol with its value.
        detail: What the figure is about where its name cannot say it: a key of a file, a card.
        reference: Key into `planner.references` where the number is a published one.
        low: Lower end of what the planner finds, for times and costs; None where there is no band.
        high: Upper end.
        counts: What a name like "activations" stands for in this figure, a code; empty where that is plain.
    """

    name: str
    said: float | None
    found: float
    unit: Unit
    formula: str = ""
    symbols: tuple[Symbol, ...] = ()
    detail: str = ""
    reference: str = ""
    low: float | None = None
    high: float | None = None
    counts: Literal["", "activations"] = ""

    @property
    def error_frac(self) -> float | None:
        """How far the claim is off, as a share of what was found."""
        if self.said is None or not self.found:
            return None
        return self.said / self.found - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim answered.

    Attributes:
        id: Stable id.
        outcome: Right, wrong, or dependent on what it leaves out.
        figures: The numbers, in order.
        issues: Why a plan of the claim's own job is refused, where it is.
    """

    id: str
    outcome: Outcome
    figures: tuple[Figure, ...]
    issues: tuple[Issue, ...] = ()


def worked(
    name: str, said: float | None, unit: Unit, formula: str, symbols: Mapping[str, float], found: float
) -> Figure:
    """A figure with its working.

    Args:
        name: Its id, which locale files word.
        said: What people say; None where they name no number.
        unit: Of both figures.
        formula: With the symbols below.
        symbols: Values put in.
        found: What comes out.
    """
    return Figure(
        name=name, said=said, found=found, unit=unit, formula=formula, symbols=tuple(symbols.items())
    )


def planned(document: Mapping[str, Any], tables: Tables) -> Plan:
    """The plan of a job that has no errors.

    Raises:
        ScenarioError: It has.
    """
    scenario, issues = parse_scenario({"version": 1, **document})
    if scenario is None:
        raise ScenarioError(issues)
    return plan(scenario, tables)


def refusal(document: Mapping[str, Any], tables: Tables) -> tuple[Issue, ...]:
    """The errors that keep a job from being planned; empty if nothing does."""
    try:
        planned(document, tables)
    except ScenarioError as error:
        return error.issues
    return ()


def cautions(document: Mapping[str, Any], tables: Tables) -> tuple[str, ...]:
    """Codes of the warnings and notes that the plan of a job carries."""
    return tuple(issue.code for issue in planned(document, tables).issues)
