"""The one entry that explains most of the difference between prediction and measurement, and who counts it. Pure."""

from dataclasses import dataclass

from planner.ledger import Layer, Phase
from profiler.compare import CLOSE_FRAC, Comparison, PhaseComparison, Row

NAMES = {Layer.RESERVED: "allocator_cache", Layer.PROCESS: "context", Layer.DEVICE: "other_processes"}
"""What an outer layer adds to the one inside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where the difference comes from.

    Attributes:
        layer: The outermost layer that both know; the difference is its.
        phase: The fullest measured phase.
        gap_bytes: Measured minus predicted in that layer.
        entry: Bundle of tensors, or what an outer layer adds (`allocator_cache`, `context`, `other_processes`).
        entry_bytes: Its own difference.
        share_frac: Its part of the gap; over 1 where others make up for it, None where there is no gap.
        is_close: The layer agrees within `CLOSE_FRAC`, so nothing needs explaining.
    """

    layer: Layer
    phase: Phase
    gap_bytes: int
    entry: str
    entry_bytes: int
    share_frac: float | None
    is_close: bool


def explain(comparison: Comparison) -> Explanation | None:
    """The entry with the largest difference in the direction of the gap; None where nothing can be compared."""
    at_peak = _fullest(comparison)
    known = [row for row in comparison.layers if row.residual_bytes is not None]
    if at_peak is None or not known:
        return None
    outermost = known[-1]
    gap = outermost.residual_bytes or 0
    parts = [(row.name, row.residual_bytes or 0) for row in at_peak.bundles]
    parts += _beyond(known)
    if not parts:
        return None
    name, size = max(parts, key=lambda part: (part[1] * (1 if gap >= 0 else -1), abs(part[1])))
    return Explanation(
        layer=Layer(outermost.name),
        phase=at_peak.phase,
        gap_bytes=gap,
        entry=name,
        entry_bytes=size,
        share_frac=size / gap if gap else None,
        is_close=abs(outermost.residual_frac or 0.0) <= CLOSE_FRAC,
    )


def _fullest(comparison: Comparison) -> PhaseComparison | None:
    return max(comparison.phases, key=lambda phase: phase.total.measured_bytes or 0, default=None)


def _beyond(known: list[Row]) -> list[tuple[str, int]]:
    """What each outer layer adds to the difference of the one inside it."""
    found = []
    inner = known[0]
    for row in known[1:]:
        found.append((NAMES[Layer(row.name)], (row.residual_bytes or 0) - (inner.residual_bytes or 0)))
        inner = row
    return found
