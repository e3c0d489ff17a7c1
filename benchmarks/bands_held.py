"""How often the band that is shown holds a run of a source that stands behind none of it.

One count, the same for the command and the Method page: every source is left out in turn, the whole table is made
again from the others, and each of its readings is held against the row that the planner then answers with
(`planner.accuracy.bands.nearest_row`), in the layer it was read in. A run is counted by its outermost reading, in
the table by source and layer by each. Runs read at less than they must hold are counted too, though no band is made
of them.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Final

from benchmarks.bands_ratios import Ratio
from benchmarks.bands_rows import Width, widths
from hardware_db.scores import Coverage
from planner.accuracy.bands import BEYOND, nearest_row
from planner.hardware import Band, Tables

HOW: Final = (
    "votes of {sources} and one of a source not seen, 5 % left out on each side; python -m benchmarks.bands"
)

EVERY: Final = "*"
"""All sources of a layer together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A reading and the band that answers for it; None where no row does, which counts as outside."""

    ratio: Ratio
    band: Band | None

    @property
    def below(self) -> bool:
        """Whether it was read at less than the lower end."""
        return self.band is not None and self.ratio.value < self.band.low_frac

    @property
    def above(self) -> bool:
        """Whether it was read at more than the upper end."""
        return self.band is not None and self.ratio.value > self.band.high_frac

    @property
    def inside(self) -> bool:
        """Whether there is a band and it holds the reading."""
        return self.band is not None and not self.below and not self.above


def as_bands(rows: Iterable[Width], made_on: str) -> tuple[Band, ...]:
    """The rows as the planner reads them from the table."""
    return tuple(
        Band(
            runtime=row.runtime,
            task=row.task,
            layer=row.layer,
            n_rows=row.num_rows,
            low_frac=row.low,
            high_frac=row.high,
            made_on=made_on,
            source=how(row),
        )
        for row in rows
    )


def how(row: Width) -> str:
    """What a row is, and how many sources stand behind it."""
    count = f"{row.num_sources} source{'s' if row.num_sources > 1 else ''}"
    return HOW.format(sources=count)


def judged(found: Iterable[Ratio], tables: Tables) -> list[Judged]:
    """Every reading against the bands of some tables."""
    return [Judged(ratio=ratio, band=_row(ratio, tables)) for ratio in found if ratio.layer != BEYOND]


def _row(ratio: Ratio, tables: Tables) -> Band | None:
    row = nearest_row(ratio.runtime, ratio.task, tables, ratio.layer)
    return None if row is None else row[1]


def held_out(found: Iterable[Ratio], tables: Tables) -> list[Judged]:
    """Every reading against bands made without its source."""
    found = list(found)
    result: list[Judged] = []
    for family in sorted({ratio.family for ratio in found}):
        others = widths(ratio for ratio in found if ratio.family != family)
        without = replace(tables, bands=as_bands(others, ""))
        result += judged((ratio for ratio in found if ratio.family == family), without)
    return result


def coverage(readings: Iterable[Judged]) -> list[Coverage]:
    """Each source and layer, most readings first."""
    by_cell: dict[tuple[str, str], list[Judged]] = {}
    for one in readings:
        by_cell.setdefault((one.ratio.family, one.ratio.layer), []).append(one)
    cells = [_cell(*key, members) for key, members in by_cell.items()]
    return sorted(cells, key=lambda cell: (-cell.n, cell.family, cell.layer))


def totals(readings: Iterable[Judged]) -> list[Coverage]:
    """Each layer, of all sources together."""
    return [_cell(EVERY, layer, members) for layer, members in by_layer(readings).items()]


def _cell(family: str, layer: str, members: list[Judged]) -> Coverage:
    outermost = [one for one in members if one.ratio.outermost]
    return Coverage(
        family=family,
        layer=layer,
        n=len(members),
        inside=sum(one.inside for one in members),
        below=sum(one.below for one in members),
        above=sum(one.above for one in members),
        runs=len(outermost),
        runs_inside=sum(one.inside for one in outermost),
        half_width_frac=half_width(members),
    )


def half_width(members: Iterable[Judged]) -> float | None:
    """Median of half the bands' widths, as shares of the prediction."""
    widths_frac = [(one.band.high_frac - one.band.low_frac) / 2 for one in members if one.band is not None]
    return median(widths_frac) if widths_frac else None


def report(readings: Iterable[Judged], own: frozenset[str]) -> list[str]:
    """Coverage for a terminal: by source and layer, by layer, and by run.

    Args:
        readings: Judged readings.
        own: Sources that a constant was read from.
    """
    members = list(readings)
    cells = coverage(members)
    runs = [one for one in members if one.ratio.outermost]
    clean = [one for one in runs if one.ratio.family not in own]
    return [
        "source                     layer     readings inside below above half width",
        *(_line(cell) for cell in (*totals(members), *cells)),
        f"all readings: {_share(members)}",
        f"runs, by their outermost reading: {_share(runs)}",
        f"runs of sources that no constant was read from: {_share(clean)}",
        f"mean over sources and layers: {fmean(cell.inside / cell.n for cell in cells):.1%}",
    ]


def by_layer(readings: Iterable[Judged]) -> dict[str, list[Judged]]:
    """Readings by layer, in order of name."""
    found: dict[str, list[Judged]] = {}
    for one in sorted(readings, key=lambda one: one.ratio.layer):
        found.setdefault(one.ratio.layer, []).append(one)
    return found


def _line(cell: Coverage) -> str:
    counts = f"{cell.n:8d} {cell.inside:6d} {cell.below:5d} {cell.above:5d}"
    return f"{cell.family:26.26} {cell.layer:9} {counts} {cell.half_width_frac or 0:10.1%}"


def _share(members: Collection[Judged]) -> str:
    inside = sum(one.inside for one in members)
    return f"{inside} of {len(members)} ({inside / max(len(members), 1):.1%})"
