"""One rank of a job that a launcher (`torchrun`) has started, as its environment says. No PyTorch."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from planner.scenario import Scenario
from profiler.documents import DeviceKind, Param, Remark
from profiler.runnable import why_not_runnable
from profiler.trace.division import casts_by_unit, part_of, why_not_divided


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlace:
    """Where a rank stands.

    Attributes:
        rank: Number in the job.
        world: Ranks in all.
        local_rank: Number on this machine, which is its device's.
        local_world: Ranks on this machine.
    """

    rank: int
    world: int
    local_rank: int
    local_world: int


def rank_place(environment: Mapping[str, str] | None = None) -> RankPlace | None:
    """The rank of this process, None where no launcher has started it or the job has one rank.

    `torchrun` sets these variables: pytorch.org, "torchrun (Elastic Launch)", environment variables.
    """
    known = os.environ if environment is None else environment
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    texts = [known.get(name, "") for name in names]
    if not all(text.isdecimal() for text in texts[:2]) or not known.get("MASTER_ADDR"):
        return None
    rank, world = int(texts[0]), int(texts[1])
    if world < 2:
        return None
    local, local_world = (int(text) if text.isdecimal() else None for text in texts[2:])
    return RankPlace(
        rank=rank,
        world=world,
        local_rank=rank if local is None else local,
        local_world=world if local_world is None else local_world,
    )


def why_not_runnable_here(
    scenario: Scenario, device: DeviceKind, place: RankPlace | None
) -> tuple[Remark, ...]:
    """One remark per field that this process, or this rank of a job, cannot run; empty if it can.

    Args:
        scenario: The scenario with every default of its runtime filled in.
        device: Where the step would run.
        place: The rank, None for a job of one.
    """
    remarks = why_not_runnable(scenario, device)
    if place is None or not scenario.is_training:
        return remarks
    lifted = tuple(remark for remark in remarks if not _lifted(remark, scenario))
    return (*lifted, *why_not_divided(scenario), *_in_backward(scenario), *_as_many(scenario, place))


def _lifted(remark: Remark, scenario: Scenario) -> bool:
    by_unit = remark.code == "compute_needs_autocast" and casts_by_unit(scenario)
    return by_unit or remark.code == "several_devices"


def _in_backward(scenario: Scenario) -> tuple[Remark, ...]:
    """A gradient that is stepped away as it comes was not reduced yet."""
    if not scenario.training.optimizer.in_backward:
        return ()
    return (
        Remark(code="in_backward_on_ranks", field="training.optimizer.in_backward", params={"given": True}),
    )


def _as_many(scenario: Scenario, place: RankPlace) -> tuple[Remark, ...]:
    asked = part_of(scenario).ranks
    if asked == place.world:
        return ()
    params: dict[str, Param] = {"given": asked, "allowed": str(place.world)}
    return (Remark(code="ranks_differ", field="hardware.devices", params=params),)
