"""The best plan's machines with one thing otherwise: what each technique brings there, or why it fails."""

from collections.abc import Iterator
from typing import Final

from planner.search.engine import Best, Engine
from planner.search.rigs import Rig
from planner.search.timing import Floats, Grid
from planner.search.types import Fails, Other

DIMENSIONS: Final = (
    *("framework", "method", "states", "optimizer", "sharding", "tensor", "pipeline", "context"),
    *("checkpointing", "offload"),
)


def others_of(engine: Engine, rig: Rig, best: Best) -> tuple[Other, ...]:
    """Every other value of every dimension, the rest as it is; the micro-batch is chosen anew.

    Args:
        engine: The search.
        rig: The best plan's machines.
        best: The best plan.
    """
    grid = engine.grid(rig)
    if grid is None or best.key is None or best.step_time_s is None:
        return ()
    times, _ = engine.clock.times(grid, rig.gpu, rig.links, rig.devices)
    rows = {int(variant): row for row, variant in enumerate(grid.rows)}
    return tuple(
        _other(engine, rig, grid, times, best.step_time_s, dimension, variant, rows.get(variant))
        for dimension, variant in _neighbours(engine, best.key[0])
    )


def _neighbours(engine: Engine, variant: int) -> Iterator[tuple[str, int]]:
    own = engine.variants[variant].settings
    for dimension in DIMENSIONS:
        for i, other in enumerate(engine.variants):
            differs = [name for name in own if other.settings[name] != own[name]]
            if differs == [dimension]:
                yield dimension, i


def _other(
    engine: Engine,
    rig: Rig,
    grid: Grid,
    times: Floats,
    step_s: float,
    dimension: str,
    variant: int,
    row: int | None,
) -> Other:
    value = engine.variants[variant].settings[dimension]
    if row is None:
        return Other(dimension=dimension, value=value, reason=Fails.LAYOUT)
    data = int(grid.data[row])
    columns = [i for i, size in enumerate(grid.accumulation[row]) if size > 0]
    keys = {i: (variant, data, engine.batches[i]) for i in columns}
    if not columns or not engine.sound(keys[columns[0]]):
        return Other(dimension=dimension, value=value, reason=Fails.LAYOUT)
    if engine.lacks(variant, rig.gpu) is not None:
        return Other(dimension=dimension, value=value, reason=Fails.LACKS)
    for i in sorted(columns, key=lambda i: times[row, i]):
        if engine.accepts(keys[i], rig):
            slower = float(times[row, i]) / step_s - 1
            return Other(dimension=dimension, value=value, reason=None, slower_frac=slower)
    short = -max(engine.memory.spare(keys[i], rig.gpu) for i in columns[:1])
    reason = Fails.MEMORY if short > 0 else Fails.HOST
    return Other(dimension=dimension, value=value, reason=reason, short_bytes=max(0, short))
