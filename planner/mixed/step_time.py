"""How long a step over unequal stages takes: each stage at the pace of its own slowest card."""

from dataclasses import dataclass

from planner.cards import gpu_of
from planner.hardware import Tables
from planner.mixed.stage_costs import Card, StageCosts
from planner.placement import expand_devices, micro_batches_in_flight
from planner.plan_types import DevicePlan, Plan, Verdict
from planner.scenario import Scenario
from planner.throughput.training_speed import training_speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage of a plan, seen from its fullest group of cards.

    Attributes:
        indices: Its cards.
        device: The group of them with the least headroom.
        tensor: Tensor-parallel degree.
        in_flight: Micro-batches whose activations it keeps at once.
        time_s: One micro-batch; None where the tables do not tell how fast every card is.
    """

    indices: tuple[int, ...]
    device: DevicePlan
    tensor: int
    in_flight: float
    time_s: float | None


def stages_of(plan: Plan, tables: Tables) -> tuple[Stage, ...]:
    """The stages of a plan that trains, in model order.

    Args:
        plan: The plan.
        tables: Cards and constants.
    """
    parallel, accumulation = plan.resolved.parallel, plan.resolved.training.gradient_accumulation
    groups: dict[int, list[DevicePlan]] = {}
    for device in plan.devices:
        groups.setdefault(device.stage, []).append(device)
    known = training_speed(plan, tables).step_time_s is not None
    times = stage_seconds(plan, tables) if known else (None,) * len(groups)
    return tuple(
        Stage(
            indices=tuple(sorted(index for device in groups[stage] for index in device.indices)),
            device=min(groups[stage], key=lambda device: device.headroom_bytes or 0),
            tensor=parallel.stages[stage].tensor if parallel.stages else parallel.tensor,
            in_flight=micro_batches_in_flight(stage, parallel, accumulation, plan.model.num_layers),
            time_s=time_s,
        )
        for stage, time_s in zip(sorted(groups), times, strict=True)
    )


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
    return training_speed(plan, tables).tokens_per_s


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
