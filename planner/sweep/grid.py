"""A sweep: the same question at every point of a grid of two sizes, as fast as arithmetic goes.

Every ledger entry states its formula and symbols. A few real plans at the edges of a region show which symbols
follow the two sizes, and how; the formulas are then worked out for the whole region at once. Where the entries
themselves change within a region, it is split; a region of one point is that point's plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.accuracy.bands import band_row
from planner.diffusion.gaps import leaves_out_peak
from planner.estimate import SEVERITY, plan
from planner.hardware import Tables
from planner.issues import ScenarioError
from planner.ledger import Category, Phase
from planner.moments import all_moments
from planner.plan_types import Plan, Verdict
from planner.scenario import Scenario
from planner.sweep.formula import NotExpressibleError, Powers, Whole
from planner.sweep.ledgers import DeviceValues, device_values, highest
from planner.sweep.region import NotAlikeError, StepError, compiled
from planner.sweep.sums import Sums
from planner.validation import model_for

AXES: Final[Mapping[str, tuple[str, str]]] = {
    "micro_batch": ("training", "micro_batch"),
    "sequence_length": ("training", "sequence_length"),
    "max_model_len": ("serving", "max_model_len"),
    "concurrency": ("workload", "concurrency"),
}
"""Sizes a sweep may vary, with their block and field."""

NO_ROOM: Final = SEVERITY.index(Verdict.DOES_NOT_FIT)
REFUSED: Final = -1
"""In `Sweep.verdicts`: the question has errors at this point."""
UNKNOWN_BYTES: Final = np.iinfo(np.int64).min
POINTS_AT_ONCE: Final = 1 << 15
PHASES: Final = tuple(Phase)
Codes = NDArray[np.int8]
Parts = tuple[tuple[slice, slice], tuple[slice, slice]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What a plan says at every point, for the group of devices that limits it there.

    Attributes:
        rows: First size, ascending; n of them.
        columns: Second size, ascending; m of them.
        peak_bytes: Fullest moment of the limiting device, all layers, shape (n, m); 0 where refused.
        headroom_bytes: Usable less peak; `UNKNOWN_BYTES` where the card's size is not known or the point refused.
        verdicts: Positions in `planner.estimate.SEVERITY`, `REFUSED` where the question has errors.
        phases: Position of the fullest phase in `Phase`.
        categories: Bytes at the fullest moment of the limiting device, by category, each of shape (n, m).
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    peak_bytes: Whole
    headroom_bytes: Whole
    verdicts: Codes
    phases: Codes
    categories: dict[Category, Whole]


def sweep(
    scenario: Scenario,
    tables: Tables,
    rows: tuple[str, Sequence[int]],
    columns: tuple[str, Sequence[int]],
) -> Sweep:
    """The plan's figures over a grid.

    Args:
        scenario: The question; the two sizes in it are replaced.
        tables: Cards, models, constants and bands.
        rows: A name of `AXES` and its values, ascending and distinct. When serving, each is a region of its own,
            as engines round contexts to blocks; so the context should be it.
        columns: Another name and its values.

    Raises:
        KeyError: A name is no axis.
        ValueError: Values are missing, not ascending, or below 1.
    """
    maker = _Maker(scenario, tables, AXES[rows[0]], AXES[columns[0]], _axis(rows), _axis(columns))
    whole = slice(0, len(columns[1]))
    if scenario.is_training:
        maker.fill(slice(0, len(rows[1])), whole)
    else:
        for i in range(len(rows[1])):
            maker.fill(slice(i, i + 1), whole)
    return maker.result()


def _axis(axis: tuple[str, Sequence[int]]) -> tuple[int, ...]:
    name, sizes = axis
    ascending = all(a < b for a, b in pairwise(sizes))
    if not sizes or sizes[0] < 1 or not ascending:
        raise ValueError(f"{name}: values from 1 up in ascending order, not {list(sizes[:8])}")
    return tuple(sizes)


class _Maker:
    """Fills the grid region by region."""

    def __init__(
        self,
        scenario: Scenario,
        tables: Tables,
        row_field: tuple[str, str],
        column_field: tuple[str, str],
        rows: tuple[int, ...],
        columns: tuple[int, ...],
    ) -> None:
        self.scenario, self.tables = scenario, tables
        self.fields = row_field, column_field
        self.rows, self.columns = rows, columns
        self.whole: dict[tuple[int, int], Plan | None] = {}
        found = band_row(scenario, tables)
        self.at_least = leaves_out_peak(scenario, model_for(scenario, tables))
        self.band = found[1] if found and not self.at_least else None
        shape = len(rows), len(columns)
        self.peak = np.zeros(shape, np.int64)
        self.headroom = np.full(shape, UNKNOWN_BYTES, np.int64)
        self.verdicts = np.full(shape, REFUSED, np.int8)
        self.phases = np.zeros(shape, np.int8)
        self.categories = {category: np.zeros(shape, np.int64) for category in Category}

    def plan_at(self, row: int, column: int) -> Plan | None:
        """The real plan at a point; None where the question has errors."""
        changed = self.scenario
        for (block, name), size in zip(self.fields, (row, column), strict=True):
            part = getattr(changed, block)
            changed = changed.model_copy(update={block: part.model_copy(update={name: size})})
        try:
            return plan(changed, self.tables)
        except ScenarioError:
            return None

    def with_all_moments(self, row: int, column: int) -> Plan | None:
        """The plan at a point with the entries of every moment; made once."""
        if (row, column) not in self.whole:
            with all_moments():
                self.whole[row, column] = self.plan_at(row, column)
        return self.whole[row, column]

    def fill(self, down: slice, across: slice) -> None:
        """Work out a region, or split it."""
        xs, ys = self.rows[down], self.columns[across]
        try:
            programs = compiled(xs, ys, self.with_all_moments, self.tables)
        except NotExpressibleError as error:
            if len(xs) == len(ys) == 1:
                self._store_plan(down.start, across.start)
                return
            at_step = self._at_step(down, across, error) if isinstance(error, StepError) else None
            for part in at_step or _parts(down, across, error):
                self.fill(*part)
            return
        if programs is None:
            return
        sums = [Sums(one) for one in programs]
        step = max(1, POINTS_AT_ONCE // len(ys))
        y = np.array([ys], np.int64)
        for start in range(down.start, down.stop, step):
            rows = slice(start, min(start + step, down.stop))
            powers = Powers(np.array(self.rows[rows], np.int64)[:, None], y)
            values = [
                device_values(one, of, powers, self.scenario, self.tables, self.band)
                for one, of in zip(programs, sums, strict=True)
            ]
            self._store(rows, across, values)

    def _at_step(self, down: slice, across: slice, error: StepError) -> Parts | None:
        """The region cut where a symbol steps, found by halves; None where a plan on the way is refused or other."""
        sizes = (self.rows[down], self.columns[across])[error.axis]
        other = (self.columns[across], self.rows[down])[error.axis][0]
        low, high = 0, len(sizes) - 1

        def value(index: int) -> object:
            point = (sizes[index], other) if error.axis == 0 else (other, sizes[index])
            found = self.with_all_moments(*point)
            return None if found is None else error.value(found)

        try:
            first, last = value(low), value(high)
            while high - low > 1:
                middle = (low + high) // 2
                here = value(middle)
                if here not in {first, last}:
                    return None
                low, high = (middle, high) if here == first else (low, middle)
        except IndexError:
            return None
        return None if first == last else _cut(down, across, error.axis, high)

    def _store(self, down: slice, across: slice, devices: list[DeviceValues]) -> None:
        """The group with the least headroom; where no capacity is known, the one with the highest peak."""
        place = down, across
        known = [device for device in devices if device.headroom_bytes is not None] or devices
        limits = highest([_nearness(device) for device in known], range(len(known)))
        for i in limits.present:
            where = limits.which == i if len(limits.present) > 1 else True
            self._copy(known[i], place, where)
        for device in devices:
            verdicts = device.verdicts
            if self.at_least and device.headroom_bytes is not None:
                verdicts = np.where(device.headroom_bytes < 0, NO_ROOM, verdicts).astype(np.int8)
            np.maximum(self.verdicts[place], verdicts, out=self.verdicts[place])

    def _copy(
        self, device: DeviceValues, place: tuple[slice, slice], where: NDArray[np.bool_] | bool
    ) -> None:
        np.copyto(self.peak[place], device.peak_bytes, where=where)
        np.copyto(self.phases[place], device.phases, where=where)
        if device.headroom_bytes is not None:
            np.copyto(self.headroom[place], device.headroom_bytes, where=where)
        for category, sizes in device.categories().items():
            np.copyto(self.categories[category][place], sizes, where=where)

    def _store_plan(self, i: int, j: int) -> None:
        found = self.plan_at(self.rows[i], self.columns[j])
        if found is None:
            return
        worst = found.worst
        self.peak[i, j] = worst.peak_bytes
        self.headroom[i, j] = UNKNOWN_BYTES if worst.headroom_bytes is None else worst.headroom_bytes
        self.verdicts[i, j] = SEVERITY.index(found.verdict)
        self.phases[i, j] = PHASES.index(worst.peak_phase)
        for category, size in worst.ledger.by_category(worst.peak_phase).items():
            self.categories[category][i, j] = size

    def result(self) -> Sweep:
        """The filled grid; categories that are empty everywhere are left out."""
        return Sweep(
            rows=self.rows,
            columns=self.columns,
            peak_bytes=self.peak,
            headroom_bytes=self.headroom,
            verdicts=self.verdicts,
            phases=self.phases,
            categories={category: sizes for category, sizes in self.categories.items() if sizes.any()},
        )


def _nearness(device: DeviceValues) -> Whole:
    """The higher, the nearer to limiting the job."""
    return device.peak_bytes if device.headroom_bytes is None else -device.headroom_bytes


def _parts(down: slice, across: slice, error: NotExpressibleError) -> Parts:
    """Where to cut a region: after its first row if that is the odd one, else in two."""
    if not isinstance(error, NotAlikeError):
        return _halves(down, across, None)
    if error.first_alone and down.stop - down.start > 1:
        return _cut(down, across, 0, 1)
    return _halves(down, across, error.axis)


def _halves(down: slice, across: slice, axis: int | None) -> Parts:
    """A region cut in two across an axis; without one, across its longer side."""
    tall, wide = down.stop - down.start, across.stop - across.start
    if axis is None:
        axis = 0 if tall >= wide else 1
    return _cut(down, across, axis, (wide if axis else tall) // 2)


def _cut(down: slice, across: slice, axis: int, after: int) -> Parts:
    """A region cut across an axis after so many sizes."""
    if axis == 0:
        middle = down.start + after
        return (slice(down.start, middle), across), (slice(middle, down.stop), across)
    middle = across.start + after
    return (down, slice(across.start, middle)), (down, slice(middle, across.stop))
