"""The committed score, read once: what `python -m benchmarks.publish` found on its date."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from hardware_db import DATA
from hardware_db.scores import Coverage, Input, read_score
from planner.accuracy.score import Cell, FitsTable

FILE_VERSION: Final = 2
SCORE: Final = DATA / "score.json"

Figure = int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One observed figure and its prediction.

    Attributes:
        id: Record.
        family: Its source by short name.
        source: Where it was published.
        task: What ran; "" where the schema can't say it.
        error: predicted / observed - 1, zero within rounding; None for verdicts.
        inside_band: Whether the band held the observation; None without a band.
    """

    id: str
    family: str
    source: str
    task: str
    metric: str
    predicted: Figure
    observed: Figure
    error: float | None
    inside_band: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What devices held at their peak, for one runtime and task.

    Attributes:
        sources: Families they come from.
        low_frac: Lower end of the band, of observed / predicted; None without a band of its own.
        high_frac: Upper end.
        held_inside: Runs inside a band made without their source.
        clean_inside: Those of sources that no constant was read from.
        clean_errors: predicted / observed - 1 of every run of such a source, sorted.
        own_errors: The same of the other runs: no test of the constants.
    """

    runtime: str
    task: str
    sources: int
    median_abs_error: float
    p90_abs_error: float
    low_frac: float | None
    high_frac: float | None
    held_inside: int
    clean_inside: int
    clean_errors: tuple[float, ...]
    own_errors: tuple[float, ...]

    @property
    def n(self) -> int:
        """Runs in all; records of one run count once."""
        return len(self.clean_errors) + len(self.own_errors)

    @property
    def errors(self) -> tuple[float, ...]:
        """Every error, sorted."""
        return tuple(sorted(self.clean_errors + self.own_errors))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """Verdicts of one runtime and task: how many of them were right."""

    runtime: str
    task: str
    right: int
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InSample:
    """A constant that was read from rows that it helps to predict, and the metrics it decides there."""

    name: str
    families: tuple[str, ...]
    metrics: tuple[str, ...]
    n_rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Published:
    """The whole file. Compared by identity, so that it can key a cache.

    Attributes:
        made_on: Date.
        made_by: The command.
        counts: Records, figures, and those without an answer.
        unsupported: Reason and how many records or figures have it, most frequent first.
        licences: Source, licence and use of the measurements.
    """

    made_on: str
    made_by: str
    inputs: tuple[Input, ...]
    counts: Mapping[str, int]
    fits: FitsTable
    cells: tuple[Cell, ...]
    runs: tuple[Runs, ...]
    coverage: tuple[Coverage, ...]
    verdicts: tuple[Verdicts, ...]
    in_sample: tuple[InSample, ...]
    points: tuple[Point, ...]
    unsupported: tuple[tuple[str, int], ...]
    licences: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=2)
def published(path: Path = SCORE) -> Published:
    """The score of a file, read once.

    Raises:
        OSError: There is no such file.
        ValueError: It is not a score of this version.
    """
    tree = read_score(path, FILE_VERSION)
    return Published(
        made_on=tree["made_on"],
        made_by=tree["made_by"],
        inputs=tuple(Input(**item) for item in tree["inputs"]),
        counts=tree["counts"],
        fits=FitsTable(**tree["fits"]),
        cells=tuple(Cell(**item) for item in tree["cells"]),
        runs=tuple(
            Runs(**(item | {key: tuple(item[key]) for key in ("clean_errors", "own_errors")}))
            for item in tree["runs"]
        ),
        coverage=tuple(Coverage(**item) for item in tree["coverage"]),
        verdicts=tuple(Verdicts(**item) for item in tree["verdicts"]),
        in_sample=tuple(
            InSample(**(item | {key: tuple(item[key]) for key in ("families", "metrics")}))
            for item in tree["in_sample"]
        ),
        points=_points(tree),
        unsupported=_reasons(tree),
        licences=tuple(map(tuple, tree["licences"])),
    )


def _points(tree: dict[str, Any]) -> tuple[Point, ...]:
    records, metrics = tree["records"], tree["metrics"]
    found: list[Point] = []
    for position, metric, predicted, observed, error, inside in tree["rows"]:
        name, family, source, _, task = records[position]
        found.append(
            Point(
                id=name,
                family=tree["families"][family],
                source=tree["sources"][source],
                task=task or "",
                metric=metrics[metric],
                predicted=predicted,
                observed=observed,
                error=error,
                inside_band=inside,
            )
        )
    return tuple(found)


def _reasons(tree: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    counts: dict[str, int] = {}
    for _, _, reason in tree["unsupported"]:
        counts[reason] = counts.get(reason, 0) + 1
    return tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
