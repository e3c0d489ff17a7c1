"""`search`: one question, many machines, one answer."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from planner.cost.run_cost import ASSUMED_SPOT, run_cost
from planner.hardware import Tables
from planner.model.spec import ModelSpec
from planner.scenario import Scenario
from planner.search.engine import Answers, Best, Engine
from planner.search.others import others_of
from planner.search.refusals import refuse_runtime
from planner.search.rigs import Rent, rents
from planner.search.space import variants
from planner.search.tree import tree_engine
from planner.search.types import (
    Counts,
    Fails,
    Found,
    Limits,
    Machine,
    Other,
    Rejected,
    SearchResult,
    Technique,
    TreeAnswer,
)
from planner.throughput.bands import speed_band
from planner.validation import model_for

NOT_TRAINING: Final = "task: serve; a search needs a task that trains"


@dataclass(frozen=True, slots=True)
class _Tried:
    """One machine in one number."""

    machine: Machine
    rent: Rent
    best: Best


def search(
    question: Scenario, machines: Iterable[Machine], tables: Tables, limits: Limits | None = None
) -> SearchResult:
    """The best plans of a training job over machines.

    Args:
        question: The job. Its cards, their number and its division don't matter; what the limits don't let vary is
            kept: model, sequence length, method, formats.
        machines: What can be had; prices of one kind, as nothing else may be ranked together.
        tables: Cards, servers, constants, bands.
        limits: The constraints.

    Raises:
        ValueError: The question serves.
        ScenarioError: It names no model that is known, or an engine that does not train.
    """
    if not question.is_training:
        raise ValueError(NOT_TRAINING)
    wanted, listed = limits or Limits(), tuple(machines)
    model = model_for(question, tables)
    refuse_runtime(question, model, tables)
    largest = max((machine.devices for machine in listed), default=1)
    engine = Engine(question, variants(question, model, wanted, largest), model, tables, wanted)
    tried, answers = _tried(engine, listed, question, tables, wanted)
    found = [_found(engine, one, tables) for one in tried if one.best.key is not None]
    allowed = sorted((one for one in found if _within(one, wanted)), key=_by_cost)
    known = [one for one in allowed if one.days is not None]
    unknown = sorted((one for one in allowed if one.days is None), key=_by_cards)
    best = min(known, key=_by_cost, default=None)
    return SearchResult(
        found=tuple(known),
        rejected=tuple(_rejections(engine, listed, tried, found, wanted)),
        cheapest=min((one for one in known if one.usd is not None), key=_by_cost, default=None),
        fastest=min(known, key=_by_days, default=None),
        fewest=min(known, key=_by_cards, default=None),
        frontier=frontier(known),
        unknown=tuple(unknown),
        others=() if best is None else _others(engine, best, tried),
        counts=_counts(engine, listed, tried, answers),
        tree=_tree(question, model, tables, wanted, tried),
        limits=wanted,
    )


def _tried(
    engine: Engine, machines: Sequence[Machine], question: Scenario, tables: Tables, limits: Limits
) -> tuple[list[_Tried], list[Best]]:
    """Every machine in every number, rigs that are equal answered once; the largest first, as they settle others."""
    answers = Answers(engine.best, engine.facts.offloads)
    links = question.hardware.links
    rented = [
        (machine, rent)
        for machine in machines
        if machine.gpu.usable_bytes is not None
        for rent in rents(machine, limits.most_cards, links, tables)
    ]
    for _, rent in sorted(rented, key=lambda pair: -pair[1].rig.devices):
        answers(rent.rig)
    return [_Tried(machine, rent, answers(rent.rig)) for machine, rent in rented], answers.listed


def _found(engine: Engine, one: _Tried, tables: Tables) -> Found:
    key, step, rig = one.best.key, one.best.step_time_s, one.rent.rig
    if key is None:
        raise ValueError("a rig without a plan")
    kind = "train_moe" if engine.model.has_experts else "train_dense"
    limits, training = engine.limits, engine.variants[key[0]].resolved.training
    band = None if step is None else speed_band(step, kind, tables)
    speed = None if step is None else limits.sequences * training.sequence_length / step
    cost = None
    if speed is not None:
        cost = run_cost(
            tokens=limits.tokens, tokens_per_s=speed, usd_per_hour=one.rent.usd_per_hour,
            spot=ASSUMED_SPOT if one.machine.spot else None,
            time_low_frac=None if band is None else band.low_frac,
            time_high_frac=None if band is None else band.high_frac,
        )  # fmt: skip
    return Found(
        machine=one.machine, count=one.rent.count, devices=rig.devices, choice=engine.choice(key, rig),
        step_time_s=step, band=band, tokens_per_s=speed, cost=cost, usd_per_hour=one.rent.usd_per_hour,
        peak_bytes=engine.memory.peak(key, rig.gpu), usable_bytes=rig.gpu.usable_bytes or 0,
        missing=one.best.missing,
    )  # fmt: skip


def frontier(found: Iterable[Found]) -> tuple[Found, ...]:
    """Plans than which none is both cheaper and faster; without prices, none has fewer cards and is faster."""
    listed = [one for one in found if one.days is not None]
    priced = [one for one in listed if one.usd is not None]
    first: Callable[[Found], float] = (lambda one: one.usd or 0.0) if priced else (lambda one: one.devices)
    kept: list[Found] = []
    for one in sorted(priced or listed, key=lambda one: (first(one), one.days or 0.0)):
        if not kept or (one.days or 0.0) < (kept[-1].days or 0.0):
            kept.append(one)
    return tuple(kept)


def _within(one: Found, limits: Limits) -> bool:
    return _over(one, limits) is None


def _over(one: Found, limits: Limits) -> tuple[Fails, float] | None:
    """Which limit a plan breaks; a plan of unknown speed breaks none that is set by time."""
    if one.days is not None and limits.deadline_days is not None and one.days > limits.deadline_days:
        return Fails.DEADLINE, one.days
    if one.usd is not None and limits.budget_usd is not None and one.usd > limits.budget_usd:
        return Fails.BUDGET, one.usd
    return None


def _by_cost(one: Found) -> tuple[float, float, int]:
    return one.usd if one.usd is not None else 0.0, one.days or float("inf"), one.devices


def _by_days(one: Found) -> tuple[float, float, int]:
    return one.days or float("inf"), one.usd or 0.0, one.devices


def _by_cards(one: Found) -> tuple[int, float, float]:
    return one.devices, one.usd or 0.0, one.days or float("inf")


def _rejections(
    engine: Engine,
    machines: Sequence[Machine],
    tried: Sequence[_Tried],
    found: Sequence[Found],
    limits: Limits,
) -> list[Rejected]:
    rents_of: dict[int, list[_Tried]] = {}
    for one in tried:
        rents_of.setdefault(id(one.machine), []).append(one)
    plans_of: dict[int, list[Found]] = {}
    for plan in found:
        plans_of.setdefault(id(plan.machine), []).append(plan)
    nearest: dict[object, Rejected] = {}
    rejected = []
    for machine in machines:
        own = plans_of.get(id(machine), [])
        if any(_within(plan, limits) for plan in own):
            continue
        if own:
            rejected.append(_over_limits(machine, own, limits))
        else:
            rejected.append(_without_plan(engine, machine, rents_of.get(id(machine), []), nearest))
    return rejected


def _over_limits(machine: Machine, plans: Sequence[Found], limits: Limits) -> Rejected:
    """Plans that fit but take too long or cost too much; the one that comes nearest."""
    broken = [(over, plan) for plan in plans for over in [_over(plan, limits)] if over is not None]
    dear = [(over, plan) for over, plan in broken if over[0] is Fails.BUDGET]
    (reason, value), plan = min(dear or broken, key=lambda pair: pair[0][1])
    return Rejected(machine=machine, reason=reason, nearest=plan.choice, devices=plan.devices, value=value)


def _without_plan(
    engine: Engine, machine: Machine, own: Sequence[_Tried], nearest: dict[object, Rejected]
) -> Rejected:
    if machine.gpu.usable_bytes is None:
        return Rejected(machine=machine, reason=Fails.SIZE_UNKNOWN)
    if not own:
        return Rejected(machine=machine, reason=Fails.MOST_CARDS, devices=machine.devices)
    laid = [one for one in own if one.best.plans]
    if not laid:
        issue = next((one.best.blocked for one in own if one.best.blocked is not None), None)
        return Rejected(machine=machine, reason=Fails.LAYOUT if issue is None else Fails.LACKS, issue=issue)
    last = laid[-1].rent.rig
    if last.cards not in nearest:
        nearest[last.cards] = _short(engine, machine, laid[-1])
    return replace(nearest[last.cards], machine=machine)


def _short(engine: Engine, machine: Machine, one: _Tried) -> Rejected:
    close = engine.nearest(one.rent.rig)
    if close is None:
        return Rejected(machine=machine, reason=Fails.LAYOUT)
    key, short = close
    choice = engine.choice(key, one.rent.rig)
    return Rejected(
        machine=machine, reason=Fails.MEMORY, short_bytes=short, nearest=choice, devices=one.rent.rig.devices
    )


def _others(engine: Engine, best: Found, tried: Sequence[_Tried]) -> tuple[Other, ...]:
    one = next(
        one for one in tried
        if one.machine is best.machine and one.rent.count == best.count and one.rent.rig.devices == best.devices
    )  # fmt: skip
    return others_of(engine, one.rent.rig, one.best)


def _counts(
    engine: Engine, machines: Sequence[Machine], tried: Sequence[_Tried], answers: Sequence[Best]
) -> Counts:
    return Counts(
        plans=sum(one.plans for one in answers),
        offer_plans=sum(one.best.plans for one in tried),
        timed=sum(one.timed for one in answers),
        by_bound=sum(one.settled for one in answers),
        ledgers=engine.memory.ledgers,
        machines=len(answers),
        offers=len(machines),
    )


def _tree(
    question: Scenario, model: ModelSpec, tables: Tables, limits: Limits, tried: Sequence[_Tried]
) -> TreeAnswer:
    """The tree's first step that fits on each machine, and the cheapest of those."""
    engine, steps = tree_engine(question, model, tables, limits)
    answers = Answers(engine.best_by_variant, engine.facts.offloads)
    found = []
    for one in tried:
        best = answers(one.rent.rig)
        if best.key is not None:
            found.append((best.key[0], _found(engine, _Tried(one.machine, one.rent, best), tables)))
    inside = [(step, plan) for step, plan in found if _within(plan, limits)]
    if not inside:
        return TreeAnswer(step="nothing", found=None)
    step, plan = min(inside, key=lambda pair: (pair[1].days is None, *_by_cost(pair[1])))
    return TreeAnswer(step=steps[step], found=plan, framework=_beyond(question, plan, limits))


def _beyond(question: Scenario, plan: Found, limits: Limits) -> str | None:
    """The framework of the tree's plan, where the search was not allowed to change to it."""
    name = plan.choice.scenario.runtime.name
    allowed = Technique.FRAMEWORKS in limits.techniques
    return None if allowed or name == question.runtime.name else name
