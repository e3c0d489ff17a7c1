"""One region of a sweep: its plans' entries as programs of the two sizes, from a few plans at its edges."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Final

from planner.hardware import Tables
from planner.ledger import Category, Entry, Layer, Ledger, Phase
from planner.placement_fit import place_job
from planner.plan_types import DevicePlan, Plan
from planner.sweep.formula import Formula, NotExpressibleError, program
from planner.sweep.polynomial import Polynomial, add, bilinear, constant, value_at
from planner.training.allocator_cache import PACKED, RETAINED, UNIT_GRADIENTS
from planner.training.setup import Setup, setup_for

Point = tuple[int, int]
Planner = Callable[[int, int], Plan | None]
CACHE: Final = "allocator_cache"
Moment = tuple[Phase, tuple[int, ...]]
"""A moment of a phase; phases with one moment have the number ()."""
Key = tuple[Category, Layer, frozenset[Moment], bool, str]
"""What entries that are added up share. The fourth: they are weights that are counted, not estimated; the last: their
name, for those that are asked for by name."""
NAMED: Final = frozenset({PACKED, RETAINED, *UNIT_GRADIENTS})


@dataclass(slots=True)
class Group:
    """Entries of one key: the sum of those that are polynomials, and the rest."""

    polynomial: Polynomial = field(default_factory=dict)
    others: list[Formula] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProgram:
    """The ledger of one group of devices over the region.

    Attributes:
        moments: The moments the job passes through, in order.
        groups: Its entries, added up where they are alike.
        usable: What the card offers; None if not known.
        setup: What the allocator's cache, which follows from the rest, depends on; None where there is none.
        shard: Ranks the device's share is divided over.
    """

    moments: tuple[Moment, ...]
    groups: dict[Key, Group]
    usable: Polynomial | None
    setup: Setup | None
    shard: int


class NotAlikeError(NotExpressibleError):
    """The plans of a region have other entries in places.

    Attributes:
        axis: Along which size they change, 0 or 1; None if the corners don't tell.
        first_alone: Whether the first size seems to be the only other one.
    """

    def __init__(self, axis: int | None, *, first_alone: bool = False) -> None:
        super().__init__(f"entries change along axis {axis}")
        self.axis = axis
        self.first_alone = first_alone


class StepError(NotExpressibleError):
    """A symbol takes one step along one size: it is the same on either side of it.

    Attributes:
        axis: Along which size, 0 or 1.
        value: The symbol in a plan of the region.
    """

    def __init__(self, axis: int, value: Callable[[Plan], object]) -> None:
        super().__init__(f"a symbol steps along axis {axis}")
        self.axis = axis
        self.value = value


def _axis(shapes: Mapping[Point, object], xs: Point, ys: Point) -> int | None:
    if any(shapes[x, ys[0]] != shapes[x, ys[1]] for x in xs):
        return 1
    return 0 if any(shapes[xs[0], y] != shapes[xs[1], y] for y in ys) else None


def probes(xs: Sequence[int], ys: Sequence[int]) -> tuple[Point, ...]:
    """Where plans are made: the corners, then points within that a stepped rule would betray.

    Steps are nearly always powers of two, so the least even sizes are among them; a rule that changes near an end
    shows at the second and the last but one.
    """
    corners = [(x, y) for x in (xs[0], xs[-1]) for y in (ys[0], ys[-1])]
    second, last_but_one = xs[min(1, len(xs) - 1)], ys[max(0, len(ys) - 2)]
    middle = xs[len(xs) // 2], ys[len(ys) // 2]
    inner = [middle, (second, last_but_one), (min(xs, key=_evenness), min(ys, key=_evenness))]
    return tuple(dict.fromkeys([*corners, *inner]))


def _evenness(size: int) -> int:
    """The largest power of two that divides it."""
    return size & -size


def compiled(
    xs: Sequence[int], ys: Sequence[int], plan_at: Planner, tables: Tables
) -> tuple[DeviceProgram, ...] | None:
    """The programs of every group of devices.

    Args:
        xs: First size, ascending.
        ys: Second size, ascending.
        plan_at: Makes the plan at a point, with every moment; None where the question has errors.
        tables: What the plans are made from.

    Returns:
        One program per group, or None where every plan has errors. Groups that share a ledger, on cards that offer
        the same, have one together: the first of them answers for all.

    Raises:
        NotExpressibleError: The plans of the region don't follow one set of formulas.
    """
    found = {point: plan_at(*point) for point in probes(xs, ys)}
    plans = {point: plan for point, plan in found.items() if plan is not None}
    if not plans:
        return None
    shapes = {point: tuple(map(_shape, plan.devices)) if plan else None for point, plan in found.items()}
    if len(set(shapes.values())) > 1:
        axis = _axis(shapes, (xs[0], xs[-1]), (ys[0], ys[-1]))
        second = xs[min(1, len(xs) - 1)], ys[max(0, len(ys) - 2)]
        raise NotAlikeError(axis, first_alone=axis == 0 and shapes[second] == shapes[xs[-1], ys[-1]])
    span = (xs[0], xs[-1]), (ys[0], ys[-1])
    corner = plans[span[0][1], span[1][1]]
    shares = place_job(corner.resolved, corner.model, tables)
    alike = {
        tuple((id(plan.devices[i].ledger), plan.devices[i].usable_bytes) for plan in plans.values()): i
        for i in reversed(range(len(shares)))
    }
    return tuple(
        _device(
            i,
            span,
            {point: plan.devices[i] for point, plan in plans.items()},
            setup_for(share, corner.resolved, corner.model) if corner.resolved.is_training else None,
            share.shard,
        )
        for i, share in enumerate(shares)
        if i in alike.values()
    )


def _device(
    position: int,
    span: tuple[Point, Point],
    devices: dict[Point, DevicePlan],
    setup: Setup | None,
    shard: int,
) -> DeviceProgram:
    first = next(iter(devices.values()))
    groups: dict[Key, Group] = {}
    ledgers = {point: _counted(device) for point, device in devices.items()}
    moments = _moments(first.ledger)
    for i, entry in enumerate(_counted(first)):
        alike = {point: entries[i] for point, entries in ledgers.items()}
        _add(groups, entry, _alive(entry, moments), _program(span, entry, alike, (position, i)))
    return DeviceProgram(
        moments=moments,
        groups=groups,
        usable=_usable(span, devices),
        setup=setup,
        shard=shard,
    )


def _counted(device: DevicePlan) -> list[Entry]:
    return [entry for entry in device.ledger.entries if entry.name != CACHE]


def _shape(device: DevicePlan) -> tuple[object, ...]:
    entries = tuple(
        (
            e.name,
            e.category,
            e.layer,
            e.phases,
            e.moment,
            e.estimate,
            e.formula,
            tuple(name for name, _ in e.symbols),
        )
        for e in _counted(device)
    )
    return device.indices, device.usable_source, device.ledger.phases, entries


def _program(
    span: tuple[Point, Point], entry: Entry, alike: dict[Point, Entry], place: tuple[int, int]
) -> Formula:
    """An entry over the region; one that is the same at every probe is that number of bytes."""
    if all(other.symbols == entry.symbols for other in alike.values()):
        return constant(entry.bytes)
    symbols = {}
    for k, (name, _) in enumerate(entry.symbols):
        try:
            symbols[name] = _fitted(span, {point: other.symbols[k][1] for point, other in alike.items()})
        except _NotBilinearError as error:
            if error.axis is None:
                raise
            raise StepError(error.axis, partial(_symbol, place, k)) from error
    return program(entry.formula, symbols, (span[0][1], span[1][1]))


def _symbol(place: tuple[int, int], k: int, plan: Plan) -> object:
    device, entry = place
    return _counted(plan.devices[device])[entry].symbols[k][1]


def _moments(ledger: Ledger) -> tuple[Moment, ...]:
    """Every moment in order. An entry of a moment that is divided further belongs to all of its parts."""
    found: list[Moment] = []
    for phase in ledger.phases:
        numbers = sorted({entry.moment for entry in ledger.entries if phase in entry.phases} | {()})
        found += [
            (phase, number)
            for number in numbers
            if not any(other != number and other[: len(number)] == number for other in numbers)
        ]
    return tuple(found)


def _alive(entry: Entry, moments: tuple[Moment, ...]) -> frozenset[Moment]:
    depth = len(entry.moment)
    return frozenset(
        (phase, number)
        for phase, number in moments
        if phase in entry.phases and number[:depth] == entry.moment
    )


def _add(groups: dict[Key, Group], entry: Entry, alive: frozenset[Moment], formula: Formula) -> None:
    is_floor = entry.category is Category.WEIGHTS and not entry.estimate
    name = entry.name if entry.name in NAMED else ""
    group = groups.setdefault((entry.category, entry.layer, alive, is_floor, name), Group())
    if isinstance(formula, dict):
        group.polynomial = add(group.polynomial, formula)
    else:
        group.others.append(formula)


def _usable(span: tuple[Point, Point], devices: dict[Point, DevicePlan]) -> Polynomial | None:
    known = {point: device.usable_bytes for point, device in devices.items()}
    given = {point: size for point, size in known.items() if size is not None}
    if not given:
        return None
    if len(given) < len(known):
        raise NotExpressibleError("the card's size is known in places")
    return _fitted(span, given)


def _fitted(span: tuple[Point, Point], known: dict[Point, int] | dict[Point, int | float]) -> Polynomial:
    """The value as a polynomial of the sizes, checked at every probe."""
    first = next(iter(known.values()))
    if all(value == first for value in known.values()):
        return constant(first)
    xs, ys = span
    amounts = {point: Fraction(value) for point, value in known.items()}
    found = bilinear(xs, ys, tuple(tuple(amounts[x, y] for y in ys) for x in xs))
    if any(value_at(found, *point) != amount for point, amount in amounts.items()):
        raise _NotBilinearError(_stepping(span, amounts))
    return found


class _NotBilinearError(NotExpressibleError):
    """A value that is no bilinear function of the sizes; `axis`: the only size along which it steps, if it does."""

    def __init__(self, axis: int | None) -> None:
        super().__init__("a symbol is not bilinear")
        self.axis = axis


def _stepping(span: tuple[Point, Point], amounts: Mapping[Point, Fraction]) -> int | None:
    """The size along which a value with two levels steps; None where it has more, or follows both sizes."""
    xs, ys = span
    if len(set(amounts.values())) > 2:
        return None
    if all(amounts[xs[0], y] == amounts[xs[1], y] for y in ys):
        return 1
    return 0 if all(amounts[x, ys[0]] == amounts[x, ys[1]] for x in xs) else None
