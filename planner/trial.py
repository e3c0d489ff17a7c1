"""A small-scale trial: a fraction of the cards with the same load on each, before the full run.

The division shrinks by copies first, then pipeline, context and tensor. Where states are divided over fewer cards,
the model gets fewer layers, so many that a card of the trial is as full as one of the run.
"""

import json
from dataclasses import dataclass
from math import gcd
from typing import Any, Final, Literal

from planner.estimate import plan
from planner.hardware import Tables
from planner.issues import ScenarioError
from planner.plan_types import Plan
from planner.scenario import Scenario, to_document
from planner.throughput.training_speed import TrainingSpeed, training_speed
from planner.validation import parse_scenario

Refusal = Literal["serves", "stages_by_hand", "unequal_cards", "one_card", "model_not_cut", "not_planned"]
FRACTION: Final = 8
LAYERS: Final = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
"""Config keys that count layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The trial beside the run.

    Attributes:
        document: Its question.
        plan: Its answer, None where there is a refusal.
        layers: Layers of its model.
        full_layers: Layers of the run's.
        speed: Of the trial.
        full_speed: Of the run.
        refusal: Why there is none.
    """

    document: dict[str, Any]
    plan: Plan | None
    layers: int
    full_layers: int
    speed: TrainingSpeed | None
    full_speed: TrainingSpeed | None
    refusal: Refusal | None = None


def trial(full: Plan, tables: Tables, fraction: int = FRACTION) -> Trial:
    """The trial on a fraction of the cards.

    Args:
        full: The plan of the run.
        tables: Cards and constants.
        fraction: The run's cards over the trial's; the trial has one card at least.
    """
    refusal = _refusal(full.scenario)
    if refusal is not None:
        return _refused(full, refusal)
    base = _on_fewer_cards(full, fraction)
    found = _as_full(base, full, tables)
    if isinstance(found, str):
        return _refused(full, found)
    document, answer = found
    return Trial(
        document=document,
        plan=answer,
        layers=answer.model.num_layers,
        full_layers=full.model.num_layers,
        speed=training_speed(answer, tables),
        full_speed=training_speed(full, tables),
    )


def with_layers(config: dict[str, Any], layers: int) -> dict[str, Any] | None:
    """The config with fewer layers, lists by layer cut to match; None where it names no number of layers."""
    key = next((name for name in LAYERS if isinstance(config.get(name), int)), None)
    if key is None:
        return None
    before = config[key]
    cut = {
        name: value[:layers] if isinstance(value, list) and len(value) == before else value
        for name, value in config.items()
    }
    return cut | {key: layers}


def smaller_division(scenario: Scenario, cards: int) -> dict[str, int]:
    """Degrees on fewer cards: tensor kept as far as it divides them, then context, then pipeline; copies the rest.

    Args:
        scenario: The question.
        cards: Cards of the trial.

    Returns:
        `tensor`, `context`, `pipeline`; what remains of the cards are copies.
    """
    parallel, left, found = scenario.parallel, cards, {}
    for name, degree in (
        ("tensor", parallel.tensor),
        ("context", parallel.context),
        ("pipeline", parallel.pipeline),
    ):
        found[name] = gcd(degree, left)
        left //= found[name]
    return found


def _refusal(scenario: Scenario) -> Refusal | None:
    if not scenario.is_training:
        return "serves"
    if len({row.model_copy(update={"count": 1}) for row in scenario.hardware.devices}) > 1:
        return "unequal_cards"
    if scenario.parallel.stages or scenario.parallel.pipeline_layers:
        return "stages_by_hand"
    return "one_card" if scenario.hardware.num_devices == 1 else None


def _refused(full: Plan, refusal: Refusal) -> Trial:
    return Trial(
        document={}, plan=None, layers=0, full_layers=full.model.num_layers, speed=None, full_speed=None,
        refusal=refusal,
    )  # fmt: skip


def _on_fewer_cards(full: Plan, fraction: int) -> dict[str, Any]:
    scenario = full.scenario
    cards = max(1, scenario.hardware.num_devices // fraction)
    document = to_document(scenario)
    document["hardware"]["devices"] = [document["hardware"]["devices"][0] | {"count": cards}]
    old = {k: v for k, v in document.get("parallel", {}).items() if k not in {"data", "sharding_degree"}}
    degrees = smaller_division(scenario, cards)
    division = old | {name: degree for name, degree in degrees.items() if name in old}
    if scenario.parallel.expert > 1:
        division["expert"] = gcd(scenario.parallel.expert, max(1, cards // degrees["pipeline"]))
    if degrees["pipeline"] == 1:
        division = {k: v for k, v in division.items() if k not in {"pipeline_schedule", "virtual_stages"}}
    if degrees["tensor"] == 1:
        division.pop("sequence", None)
    document.pop("parallel", None)
    return document | ({"parallel": division} if division else {})


def _as_full(base: dict[str, Any], full: Plan, tables: Tables) -> tuple[dict[str, Any], Plan] | Refusal:
    """The number of layers at which a card is nearest as full as in the run, by bisection: more never take less."""
    config = {key: json.loads(text) for key, text in full.model.config}
    most, wanted = full.model.num_layers, full.worst.peak_bytes

    def cut(layers: int) -> tuple[dict[str, Any], Plan] | None:
        document = base if layers == most else _cut(base, config, layers)
        answer = None if document is None else _planned(document, tables)
        return None if document is None or answer is None else (document, answer)

    whole = cut(most)
    if whole is None:
        return "not_planned"
    if whole[1].worst.peak_bytes <= wanted:
        return whole
    least = cut(1)
    if least is None:
        return "model_not_cut"
    low, high = (1, least), (most, whole)
    while high[0] - low[0] > 1:
        middle = (low[0] + high[0]) // 2
        found = cut(middle)
        if found is None:
            return "model_not_cut"
        if found[1].worst.peak_bytes > wanted:
            high = middle, found
        else:
            low = middle, found
    return min(low[1], high[1], key=lambda found: abs(found[1].worst.peak_bytes - wanted))


def _cut(base: dict[str, Any], config: dict[str, Any], layers: int) -> dict[str, Any] | None:
    cut = with_layers(config, layers)
    return None if cut is None else base | {"model": {"config": cut}}


def _planned(document: dict[str, Any], tables: Tables) -> Plan | None:
    scenario, _ = parse_scenario(document)
    if scenario is None:
        return None
    try:
        return plan(scenario, tables)
    except ScenarioError:
        return None
