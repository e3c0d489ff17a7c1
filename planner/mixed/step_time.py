"""How long a step over unequal stages takes: each stage at the pace of its own slowest card."""

from typing import Final

from planner.cards import gpu_of
from planner.hardware import Tables
from planner.mixed.solve import step_s
from planner.mixed.stage_costs import Card, StageCosts
from planner.placement import expand_devices
from planner.plan_types import DevicePlan, Plan, Verdict
from planner.scenario import Scenario
from planner.throughput.training_speed import training_speed

ONCE_A_STEP: Final = frozenset({"data_parallel", "optimizer_step", "host_transfers"})


def cards_of(scenario: Scenario, tables: Tables) -> tuple[Card, ...]:
    """The kinds of card of a question; what others use of a card is part of its kind.

    Raises:
        LookupError: A card that is neither in the table nor described.
    """
    rows = expand_devices(scenario)
    kinds: dict[tuple[str, int | None, int | None], list[int]] = {}
    for index, row in enumerate(rows):
        kinds.setdefault((row.gpu, row.memory_bytes, row.free_bytes), []).append(index)
    return tuple(
        Card(gpu=gpu_of(rows[found[0]], tables), row=rows[found[0]], indices=tuple(found))
        for found in kinds.values()
    )


def tokens_per_s(plan: Plan, tables: Tables) -> float | None:
    """Tokens of all cards together, a second; None where the tables lack a rate.

    Args:
        plan: A plan that trains.
        tables: Cards and constants.
    """
    found = training_speed(plan, tables)
    if found.step_time_s is None or plan.resolved.parallel.pipeline == 1:
        return found.tokens_per_s
    stages = stage_seconds(plan, tables)
    once = sum(part.time_s for part in found.parts if part.name in ONCE_A_STEP)
    step = step_s(
        max(stages),
        sum(stages),
        plan.resolved.training.gradient_accumulation,
        in_turn=plan.resolved.parallel.pipeline_schedule == "naive",
    )
    return found.step_tokens / (step + once)


def stage_seconds(plan: Plan, tables: Tables) -> tuple[float, ...]:
    """Time of one micro-batch on every stage, in model order."""
    cards = cards_of(plan.resolved, tables)
    data = plan.resolved.parallel.data or 1
    costs = StageCosts(plan.resolved, plan.model, cards, data, tables, Verdict.UNKNOWN)
    slowest: dict[int, float] = {}
    for device in plan.devices:
        slowest[device.stage] = max(slowest.get(device.stage, 0.0), _seconds(device, plan, cards, costs))
    return tuple(slowest[stage] for stage in sorted(slowest))


def _seconds(device: DevicePlan, plan: Plan, cards: tuple[Card, ...], costs: StageCosts) -> float:
    parallel = plan.resolved.parallel
    kind = next(number for number, card in enumerate(cards) if device.indices[0] in card.indices)
    tensor = parallel.stages[device.stage].tensor if parallel.stages else parallel.tensor
    is_last = device.stage == parallel.pipeline - 1
    return costs.stage_s(kind, tensor, device.layers, is_last=is_last)
