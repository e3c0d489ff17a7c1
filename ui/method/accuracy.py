"""The score as the page lays it out: points to plot, headline figures, cells, what is in sample."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Final

from planner.accuracy.predict import PEAKS
from planner.accuracy.score import POOLED, Cell
from ui.method.published import Point, Published, Runs

TRAINING: Final = "training"
SERVING: Final = "serving"
SIDES: Final = (TRAINING, SERVING)
SERVING_BYTES: Final = (
    "weights_bytes",
    "kv_bytes",
    "kv_and_state_bytes",
    "activation_peak_bytes",
    "compute_buffer_bytes",
    "non_torch_bytes",
    "cuda_graph_bytes",
    "cuda_context_bytes",
)
"""Parts of a server's memory on a device. Sums of them and counts of tokens say nothing new."""

ALLOCATED: Final = frozenset({"peak_allocated_bytes", "peak_active_bytes"})
CACHES: Final = frozenset({"kv_bytes", "kv_and_state_bytes"})
NAMED_FAMILIES: Final = 8
"""As many as there are colours; the smaller sources share one."""
OTHERS: Final = ""
MIDDLE: Final = (0.05, 0.95)


@lru_cache(maxsize=2)
def peaks(score: Published) -> tuple[Point, ...]:
    """Measured peaks of training, largest sources first."""
    return _ordered(p for p in score.points if p.metric in PEAKS and p.task != "serve" and _positive(p))


@lru_cache(maxsize=2)
def serving_parts(score: Published) -> tuple[Point, ...]:
    """Measured parts of a server's memory, largest sources first."""
    return _ordered(
        p for p in score.points if p.metric in SERVING_BYTES and p.task == "serve" and _positive(p)
    )


def points_of(score: Published, side: str) -> tuple[Point, ...]:
    """The points of one of `SIDES`."""
    return peaks(score) if side == TRAINING else serving_parts(score)


def _positive(point: Point) -> bool:
    return bool(point.predicted) and bool(point.observed)


def _ordered(points: Iterable[Point]) -> tuple[Point, ...]:
    found = tuple(points)
    counts = Counter(point.family for point in found)
    return tuple(sorted(found, key=lambda p: (-counts[p.family], p.family, p.id, p.metric)))


def families(points: Iterable[Point]) -> dict[str, list[Point]]:
    """Points by source, the largest first; what is beyond the colours is together under `OTHERS`."""
    grouped: dict[str, list[Point]] = {}
    for point in points:
        grouped.setdefault(point.family, []).append(point)
    if len(grouped) <= NAMED_FAMILIES:
        return grouped
    names = list(grouped)
    kept = {name: grouped[name] for name in names[: NAMED_FAMILIES - 1]}
    return kept | {OTHERS: [point for name in names[NAMED_FAMILIES - 1 :] for point in grouped[name]]}


def kind_of(metric: str) -> str:
    """Shape of a point: `allocated`, `reserved`, `weights`, `cache` or `working`."""
    if metric in PEAKS:
        return "allocated" if metric in ALLOCATED else "reserved"
    if metric == "weights_bytes":
        return "weights"
    return "cache" if metric in CACHES else "working"


def middle(points: Iterable[Point]) -> tuple[float, float]:
    """The ends of predicted / observed between which nine of ten points lie."""
    ratios = sorted((point.error or 0.0) + 1 for point in points)
    if not ratios:
        return 1.0, 1.0
    return tuple(ratios[round(share * (len(ratios) - 1))] for share in MIDDLE)  # type: ignore[return-value]


def median_abs_error(points: Iterable[Point]) -> float | None:
    """Median of |error| of the points that have one."""
    errors = [abs(point.error) for point in points if point.error is not None]
    return median(errors) if errors else None


@dataclass(frozen=True, slots=True)
class Together:
    """Runs together, each by its outermost reading.

    Attributes:
        n: Runs of sources that no constant was read from.
        median_abs_error: Their median |error|.
        held_inside: Of them, inside a band made without their source.
        all_n: Runs of every source.
        all_inside: Of them, inside.
    """

    n: int
    median_abs_error: float
    held_inside: int
    all_n: int
    all_inside: int

    @property
    def held_frac(self) -> float:
        """Share inside of the runs of sources that no constant was read from."""
        return self.held_inside / self.n if self.n else 0.0

    @property
    def all_frac(self) -> float:
        """Share inside of all runs."""
        return self.all_inside / self.all_n if self.all_n else 0.0


def together(runs: Iterable[Runs]) -> Together:
    """The runs of every runtime and task: those whose source no constant was read from, and all."""
    found = tuple(runs)
    errors = [abs(error) for row in found for error in row.clean_errors]
    return Together(
        n=len(errors),
        median_abs_error=median(errors or [0.0]),
        held_inside=sum(row.clean_inside for row in found),
        all_n=sum(row.n for row in found),
        all_inside=sum(row.held_inside for row in found),
    )


def with_own_band(runs: Iterable[Runs]) -> tuple[Runs, ...]:
    """The runtimes and tasks with enough runs for a band of their own, most runs first."""
    return tuple(sorted((row for row in runs if row.low_frac is not None), key=lambda row: -row.n))


def quantile(ordered: tuple[float, ...], share: float) -> float:
    """A value of a sorted row of numbers: the nearest to `share` of the way."""
    return ordered[round(share * (len(ordered) - 1))]


def read_from_itself(point: Point, score: Published) -> bool:
    """Whether a constant that decides this metric was read from this family."""
    return _own(point.family, point.metric, score)


def cell_read_from_itself(cell: Cell, score: Published) -> bool:
    """The same of a cell; of pooled families, whether it holds for one of them."""
    if cell.family != POOLED:
        return _own(cell.family, cell.metric, score)
    apart = {other.family for other in score.cells if other.metric == cell.metric}
    pooled = {point.family for point in score.points if point.metric == cell.metric} - apart
    return any(_own(family, cell.metric, score) for family in pooled)


def _own(family: str, metric: str, score: Published) -> bool:
    return any(family in constant.families and metric in constant.metrics for constant in score.in_sample)


def clean(points: Iterable[Point], score: Published) -> tuple[Point, ...]:
    """The points that no constant was read from."""
    return tuple(point for point in points if not read_from_itself(point, score))
