"""Data-parallel workers that join and leave: the plan at every number of them, and where it stops fitting.

A worker is one copy of the model: tensor x context x pipeline cards. Each keeps its micro-batch, as Horovod's elastic
mode does, so the batch of a step follows the workers; how many accumulation steps keep it is worked out beside it.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from planner.estimate import plan
from planner.hardware import Tables
from planner.issues import Issue, ScenarioError, Severity
from planner.placement import data_degree
from planner.plan_types import Plan, Verdict
from planner.scenario import Scenario, to_document
from planner.throughput.training_speed import training_speed
from planner.units import ceil_div
from planner.validation import parse_scenario

Refusal = Literal["serves", "stages_by_hand", "one_process", "unequal_cards"]
MOST_ROWS: Final = 12
REACH: Final = 2
"""Without a range of its own a question is looked at up to twice its workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """The job on some number of workers.

    Attributes:
        data: Workers.
        cards: Cards of all of them.
        plan: The answer, None where it is refused.
        issue: The first error where it is.
        tokens_per_s: Of all cards; None where the tables do not tell.
        step_tokens: Tokens of a step with each worker's own batch as it is.
        accumulation: Steps of accumulation that keep at least the batch of the question.
    """

    data: int
    cards: int
    plan: Plan | None
    issue: Issue | None
    tokens_per_s: float | None
    step_tokens: float | None
    accumulation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """The job at every number of workers of a range.

    Attributes:
        asked: Workers of the question itself.
        rows: By number of workers, fewest first.
        refusal: Why there is no such range.
    """

    asked: int
    rows: tuple[Workers, ...]
    refusal: Refusal | None = None

    @property
    def fewest(self) -> int | None:
        """The smallest number of workers from which on everything up to the most fits; None where none does."""
        fewest = None
        for row in reversed(self.rows):
            if row.plan is None or row.plan.verdict is not Verdict.FITS:
                break
            fewest = row.data
        return fewest


def elastic(scenario: Scenario, tables: Tables) -> Elastic:
    """The job as workers join and leave.

    Args:
        scenario: A question that can be planned; `elastic` gives the range, else one worker to twice as many.
        tables: Cards and constants.
    """
    asked = data_degree(scenario)
    refusal = _refusal(scenario)
    if refusal is not None:
        return Elastic(asked=asked, rows=(), refusal=refusal)
    given = scenario.elastic
    low, high = (given.min_data, given.max_data) if given is not None else (1, REACH * asked)
    counts = numbers(min(low, high), max(low, high), asked)
    return Elastic(asked=asked, rows=tuple(_workers(scenario, data, asked, tables) for data in counts))


def numbers(low: int, high: int, asked: int, most: int = MOST_ROWS) -> tuple[int, ...]:
    """Numbers of workers from `low` to `high`: all, or about `most` in even ratios, the asked one among them.

    Args:
        low: Fewest.
        high: Most.
        asked: The question's own, kept where it lies between.
        most: How many at most.
    """
    if high - low < most:
        return tuple(range(low, high + 1))
    ratio = (high / low) ** (1 / (most - 2))
    steps = {round(low * ratio**n) for n in range(most - 1)} | {low, high}
    return tuple(sorted(steps | ({asked} if low <= asked <= high else set())))


def with_workers(scenario: Scenario, data: int) -> dict[str, Any]:
    """The question's document with another number of workers on as many of its cards, or on more of them."""
    document = to_document(scenario)
    parallel = scenario.parallel
    cards = data * parallel.tensor * parallel.pipeline * parallel.context
    document["hardware"]["devices"] = [document["hardware"]["devices"][0] | {"count": cards}]
    division = {k: v for k, v in document.get("parallel", {}).items() if k not in {"data", "sharding_degree"}}
    document.pop("parallel", None)
    return document | ({"parallel": division} if division else {})


def _refusal(scenario: Scenario) -> Refusal | None:
    if not scenario.is_training:
        return "serves"
    if scenario.parallel.data_parallel == "dp":
        return "one_process"
    if len({row.model_copy(update={"count": 1}) for row in scenario.hardware.devices}) > 1:
        return "unequal_cards"
    return "stages_by_hand" if scenario.parallel.stages else None


def _workers(scenario: Scenario, data: int, asked: int, tables: Tables) -> Workers:
    parallel = scenario.parallel
    changed, issues = parse_scenario(with_workers(scenario, data))
    answer: Plan | None = None
    if changed is not None:
        try:
            answer = plan(changed, tables)
        except ScenarioError as refusal:
            issues = tuple(issue for issue in refusal.issues if issue.severity is Severity.ERROR)
    speed = None if answer is None else training_speed(answer, tables)
    return Workers(
        data=data,
        cards=data * parallel.tensor * parallel.pipeline * parallel.context,
        plan=answer,
        issue=issues[0] if answer is None and issues else None,
        tokens_per_s=None if speed is None else speed.tokens_per_s,
        step_tokens=None if speed is None else speed.step_tokens,
        accumulation=ceil_div(scenario.training.gradient_accumulation * asked, data),
    )
