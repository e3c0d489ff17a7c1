"""Training and price questions of published threads, answered: `python -m benchmarks.training_scenarios`.

`tests/data/mapped_training.jsonl` says for each row of `scenarios.jsonl` what is asked (field, operator, value)
and which rows are left out because what they tell does not settle the answer. It was written before anything
was answered; this prints what the planner says today.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from benchmarks.answer_table import answer_table
from hardware_db import load_tables
from planner.accuracy.predict import prediction_for
from planner.cost.run_cost import run_cost
from planner.estimate import plan
from planner.hardware import Tables
from planner.issues import ScenarioError
from planner.ledger import Category, Layer, Ledger
from planner.plan_types import Plan, Verdict
from planner.prices import Offer
from planner.resolve import apply
from planner.scenario import Scenario
from planner.state_moves import loading
from planner.throughput.training_speed import training_speed
from planner.validation import parse_scenario

MAPPED: Final = Path(__file__).parents[1] / "tests" / "data" / "mapped_training.jsonl"
STATES: Final = frozenset({Category.WEIGHTS, Category.GRADIENTS, Category.OPTIMIZER})
STEP_COPIES: Final = frozenset({
    *("flattened_gradients", "gradients_fp32", "norm_temporary", "step_temporary"),
    *("expert_flattened_gradients", "expert_gradients_fp32", "expert_step_temporary"),
})  # fmt: skip
VOCABULARY: Final = ("embedding", "lm_head", "output")

Found = float | bool | str | tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One thing asked, with its answer.

    Attributes:
        row: Id in `scenarios.jsonl`.
        question: Position of the question in its row.
        field: What is asked.
        operator: How the answer is held against what is wanted.
        wanted: What the thread established.
        found: What the planner says; None where it says nothing.
        right: Whether they agree.
    """

    row: str
    question: int
    field: str
    operator: str
    wanted: Any
    found: Found
    right: bool


def rows() -> list[dict[str, Any]]:
    """The mapped rows, in file order."""
    return [json.loads(line) for line in MAPPED.read_text(encoding="utf-8").splitlines()]


def answers(tables: Tables) -> list[Answered]:
    """Every question with its answer."""
    return [
        _answered(row["id"], number, question, asked, tables)
        for row in rows()
        for number, question in enumerate(row.get("questions", ()))
        for asked in question["asks"]
    ]


def _answered(
    row: str, number: int, question: dict[str, Any], asked: dict[str, Any], tables: Tables
) -> Answered:
    if "offer" in question:
        found = _price(question["offer"], asked["field"], tables)
    else:
        found = _figure(_scenario(question["scenario"]), asked, tables)
    return Answered(
        row=row, question=number, field=asked["field"], operator=asked["operator"], wanted=asked["value"],
        found=found, right=_agrees(asked, found),
    )  # fmt: skip


def _scenario(document: dict[str, Any]) -> Scenario:
    scenario, issues = parse_scenario(document)
    if scenario is None:
        raise ValueError(f"a mapped scenario does not parse: {issues}")
    return apply(scenario, {"hardware.margin_frac": 0.0})


def _figure(scenario: Scenario, asked: Mapping[str, Any], tables: Tables) -> Found:
    name = asked["field"]
    if name in {"fits", "weights_bytes"}:
        found = prediction_for(scenario, asked["rank"], tables).figures.get(name)
        return None if found is None else found
    try:
        answer = plan(scenario, tables)
    except ScenarioError:
        return False if name == "runs" else None
    if name == "activations_as_on":
        return _activations(answer.worst.ledger) == _activations(_on(scenario, asked["cards"], tables))
    return OF_PLAN[name](answer, tables)


def _on(scenario: Scenario, cards: int, tables: Tables) -> Ledger:
    """The fullest card's ledger of the same job on another number of cards."""
    one = (scenario.hardware.devices[0].model_copy(update={"count": cards}),)
    hardware = scenario.hardware.model_copy(update={"devices": one})
    asked = apply(scenario.model_copy(update={"hardware": hardware}), {"parallel.data": cards})
    return plan(asked, tables).worst.ledger


def _activations(ledger: Ledger) -> int:
    return max(ledger.by_category(phase).get(Category.ACTIVATIONS, 0) for phase in ledger.phases)


def _states(answer: Plan, _tables: Tables) -> Found:
    """Weights, gradients and optimizer states; copies made for the step are none, as the threads count."""
    ledger = answer.worst.ledger
    held = [
        entry
        for entry in ledger.entries
        if entry.category in STATES and entry.layer is Layer.ALLOCATED and entry.name not in STEP_COPIES
    ]
    return max(sum(entry.bytes for entry in held if phase in entry.phases) for phase in ledger.phases)


def _vocabulary(answer: Plan, _tables: Tables) -> Found:
    """The largest entry of the matrix of the vocabulary on any card."""
    sizes = [
        entry.bytes
        for device in answer.devices
        for entry in device.ledger.entries
        if entry.category is Category.WEIGHTS and any(word in entry.name for word in VOCABULARY)
    ]
    return max(sizes, default=0)


def _loading_fits(answer: Plan, tables: Tables) -> Found:
    usable = answer.worst.usable_bytes
    return None if usable is None else loading(answer, tables).device_peak_bytes <= usable


def _rate_band(answer: Plan, tables: Tables) -> Found:
    found = training_speed(answer, tables)
    if found.tokens_per_s is None or found.band is None:
        return None
    return found.tokens_per_s / found.band.high_frac, found.tokens_per_s / found.band.low_frac


def _cost_band(answer: Plan, tables: Tables) -> Found:
    """Whether a run's cost comes with both ends of its band, at the cheapest rent of the card."""
    found, workload = training_speed(answer, tables), answer.resolved.workload
    gpu_id = answer.resolved.hardware.devices[0].gpu
    rents = [
        offer.usd_per_hour / offer.gpu_count
        for offer in tables.offers
        if offer.gpu_id == gpu_id and offer.usd_per_hour and offer.gpu_count
    ]
    if found.tokens_per_s is None or found.band is None or not rents or workload is None:
        return False
    cost = run_cost(
        tokens=workload.train_tokens or 0.0, tokens_per_s=found.tokens_per_s, usd_per_hour=min(rents),
        time_low_frac=found.band.low_frac, time_high_frac=found.band.high_frac,
    )  # fmt: skip
    ends = (cost.low_usd, cost.usd, cost.high_usd)
    return None not in ends and ends[0] < ends[1] < ends[2]  # type: ignore[operator]


OF_PLAN: Final[Mapping[str, Callable[[Plan, Tables], Found]]] = {
    "states_bytes": _states,
    "peak_bytes": lambda answer, _: answer.worst.peak_bytes,
    "verdict": lambda answer, _: answer.verdict.value,
    "runs": lambda answer, _: answer.verdict is not Verdict.DOES_NOT_FIT,
    "vocabulary_bytes": _vocabulary,
    "loading_fits": _loading_fits,
    "tokens_per_s_band": _rate_band,
    "cost_has_band": _cost_band,
}


def _price(offer: Mapping[str, Any], field: str, tables: Tables) -> Found:
    if field == "usd_per_gpu_hour":
        return float(offer["usd_per_hour"] / offer["gpus"])
    first, second = (_nearest(name, offer, tables) for name in offer["providers"])
    return None if first is None or second is None else first / second


def _nearest(provider: str, asked: Mapping[str, Any], tables: Tables) -> float | None:
    """The provider's price of a card an hour, of the row whose date is nearest to the thread's."""
    wanted = date.fromisoformat(asked["date"])

    def away(offer: Offer) -> int:
        return abs((date.fromisoformat(offer.date) - wanted).days)

    same = [
        offer
        for offer in tables.offers
        if (offer.provider, offer.gpu_id, offer.price_kind) == (provider, asked["gpu"], asked["price_kind"])
    ]
    best = min(same, key=away, default=None)
    if best is None or best.usd_per_hour is None or best.gpu_count is None:
        return None
    return best.usd_per_hour / best.gpu_count


def _agrees(asked: Mapping[str, Any], found: Found) -> bool:
    wanted, operator = asked["value"], asked["operator"]
    if found is None:
        return False
    if operator == "equals":
        return bool(found == wanted)
    if operator == "one_of":
        return found in wanted
    if isinstance(found, tuple):
        low, high = found
        return bool(high < wanted if operator == "below" else low <= wanted[1] and high >= wanted[0])
    return bool(abs(float(found) - wanted) <= asked["tolerance_frac"] * wanted)


def table(found: list[Answered], left_out: list[dict[str, Any]]) -> str:
    """The answers as lines: right ones, wrong ones, and what was left out with its reason."""
    return answer_table(found, left_out, _shown, 28)


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " - ".join(_shown(item) for item in value)
    if value is None or isinstance(value, bool | str):
        return str(value)
    return f"{value:,.2f}" if isinstance(value, float) and value < 1000 else f"{value:,.0f}"


def main() -> None:
    """Print the table."""
    print(table(answers(load_tables()), [row for row in rows() if "left_out" in row]))


if __name__ == "__main__":
    main()
