"""The same cards divided otherwise: wider tensor parallelism or a deeper pipeline for fewer copies of the model."""

from collections.abc import Iterator
from typing import Any, Final

from planner.advise.change import Change, change
from planner.document import Document
from planner.placement import data_degree
from planner.plan_types import Plan
from planner.runtimes.abilities import ABILITIES, Ability
from planner.scenario import Scenario

SPLITTING_ENGINES: Final = frozenset({"vllm", "sglang"})
USUAL_MACHINE: Final = 8
"""Cards of a machine where the question does not say; tensor parallelism stays inside one."""

Degrees = tuple[int, int, int]
"""Tensor, pipeline, data."""


def other_divisions(document: Document, plan: Plan) -> Iterator[Change]:
    """Divisions of the same cards with one degree doubled at the cost of another; the batch of a step stays.

    Args:
        document: The question.
        plan: Its answer. Cards of several kinds, and stages laid out by hand, are not divided anew.
    """
    asked = plan.resolved
    parallel = asked.parallel
    if len(asked.hardware.devices) != 1 or parallel.stages:
        return
    now = parallel.tensor, parallel.pipeline, data_degree(asked)
    for degrees in _near(now):
        if _possible(degrees, now, asked, plan.model.num_layers):
            tensor, pipeline, data = degrees
            values = _values(asked, now, degrees)
            yield change(document, "other_division", values, tensor=tensor, pipeline=pipeline, data=data)


def _near(now: Degrees) -> Iterator[Degrees]:
    """One doubling for one halving; those that leave the width of a matrix as it is come first."""
    tensor, pipeline, data = now
    if data % 2 == 0:
        yield tensor, pipeline * 2, data // 2
        yield tensor * 2, pipeline, data // 2
    if pipeline % 2 == 0:
        yield tensor * 2, pipeline // 2, data
    if tensor % 2 == 0:
        yield tensor // 2, pipeline * 2, data


def _possible(degrees: Degrees, now: Degrees, asked: Scenario, layers: int) -> bool:
    tensor, pipeline, data = degrees
    ability = _ability(asked)
    deeper, wider = pipeline > now[1], tensor > now[0]
    return (
        (not deeper or (ability.pipeline and pipeline <= layers))
        and (not wider or (ability.tensor and tensor <= (asked.hardware.devices_per_node or USUAL_MACHINE)))
        and data % asked.parallel.expert == 0
    )


def _ability(asked: Scenario) -> Ability:
    """What the framework divides; one that is not listed does what the question already has it do."""
    if not asked.is_training:
        return Ability(tensor=asked.runtime.name in SPLITTING_ENGINES)
    own = Ability(tensor=asked.parallel.tensor > 1, pipeline=asked.parallel.pipeline > 1)
    return ABILITIES.get(asked.runtime.name, own)


def _values(asked: Scenario, now: Degrees, degrees: Degrees) -> dict[str, Any]:
    """Fields of the division; copies that are gone are made up for by accumulation, so that a step learns the same."""
    tensor, pipeline, data = degrees
    values: dict[str, Any] = {
        "parallel.tensor": tensor,
        "parallel.pipeline": pipeline,
        "parallel.data": data,
        "parallel.sharding_degree": None,
        "parallel.pipeline_layers": None,
    }
    if asked.is_training and data != now[2]:
        values["training.gradient_accumulation"] = asked.training.gradient_accumulation * now[2] // data
    return values
