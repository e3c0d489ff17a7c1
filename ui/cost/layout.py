"""How many cards of an instance the open job can use, its division kept and its copies counted anew."""

from dataclasses import dataclass

from planner.plan_types import Plan
from planner.units import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the open job is divided.

    Attributes:
        copy: Cards of one copy of the model: tensor x pipeline x context, or all of the job where stages are
            laid out by hand.
        tensor: Cards that have to sit in one machine.
        asked: Cards of the open job.
        fixed: The cards of each stage are named, so that there cannot be more copies.
    """

    copy: int
    tensor: int
    asked: int
    fixed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rented:
    """Cards that are paid and used.

    Attributes:
        instances: Machines; None for a price per card.
        paid: Cards in them.
        used: Cards the job runs on.
    """

    instances: int | None
    paid: int
    used: int


def layout_of(plan: Plan) -> Layout:
    """The division of a plan's question."""
    parallel, asked = plan.resolved.parallel, plan.resolved.hardware.num_devices
    if parallel.stages:
        tensor = max(stage.tensor for stage in parallel.stages)
        return Layout(copy=asked, tensor=tensor, asked=asked, fixed=True)
    copy = parallel.tensor * parallel.pipeline * parallel.context
    return Layout(copy=copy, tensor=parallel.tensor, asked=asked)


def ways_to_rent(layout: Layout, cards: int) -> tuple[Rented, ...]:
    """Ways to run the job on machines of so many cards: the fewest, then those with as many as asked.

    A tensor-parallel group stays inside one machine. Cards that make no whole copy are paid and left idle.

    Returns:
        One or two ways; none where a machine has fewer cards than a tensor-parallel group.
    """
    usable = cards - cards % layout.tensor
    if usable < layout.tensor:
        return ()
    fewest = max(1, ceil_div(layout.copy, usable))
    as_asked = max(1, ceil_div(layout.asked, usable))
    return tuple(_rented(layout, cards, usable, n) for n in dict.fromkeys((fewest, max(fewest, as_asked))))


def as_asked(layout: Layout) -> Rented:
    """A price per card: exactly the cards of the open job."""
    return Rented(instances=None, paid=layout.asked, used=layout.asked)


def _rented(layout: Layout, cards: int, usable: int, instances: int) -> Rented:
    held = instances * usable
    used = layout.copy if layout.fixed else held - held % layout.copy
    return Rented(instances=instances, paid=instances * cards, used=used)
