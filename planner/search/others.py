"""The best plan's machines with one thing otherwise: what each technique brings there, or why it fails."""

from collections.abc import Iterator, Mapping
from typing import Final

from planner.search.engine import Best, Engine
from planner.search.rigs import Rig
from planner.search.space import Variant
from planner.search.types import Fails, Other

TECHNIQUES: Final = ("framework", "method", "states", "optimizer", "checkpointing", "offload")
KEPT: Final = (*TECHNIQUES, "compute")
"""Those that only the one at hand may change; products follow the card."""
DIVISION: Final = ("sharding", "tensor", "pipeline", "context")
Settings = Mapping[str, str | int]


def others_of(engine: Engine, rig: Rig, best: Best) -> tuple[Other, ...]:
    """Every other value of every dimension, the other techniques as they are; division and micro-batch chosen anew.

    Args:
        engine: The search.
        rig: The best plan's machines.
        best: The best plan.
    """
    if best.key is None or best.step_time_s is None:
        return ()
    own = engine.variants[best.key[0]].settings
    return tuple(
        _other(engine, rig, best.step_time_s, own, dimension, value)
        for dimension, value in _alternatives(engine, own)
    )


def _alternatives(engine: Engine, own: Settings) -> Iterator[tuple[str, str | int]]:
    for dimension in (*TECHNIQUES, *DIVISION):
        values = dict.fromkeys(variant.settings[dimension] for variant in engine.variants)
        yield from ((dimension, value) for value in values if value != own[dimension])


def _other(engine: Engine, rig: Rig, step_s: float, own: Settings, dimension: str, value: str | int) -> Other:
    def wanted(variant: Variant) -> bool:
        given = variant.settings
        same = all(given[name] == own[name] for name in KEPT if name != dimension)
        return same and given[dimension] == value

    found = engine.first_of(rig, wanted)
    if found.key is not None and found.step_time_s is not None:
        slower = found.step_time_s / step_s - 1
        return Other(
            dimension=dimension,
            value=value,
            reason=None,
            slower_frac=slower,
            choice=engine.choice(found.key, rig),
        )
    if not found.plans:
        reason = Fails.LAYOUT if found.blocked is None else Fails.LACKS
        return Other(dimension=dimension, value=value, reason=reason)
    near = engine.nearest(rig, wanted)
    if near is None:
        return Other(dimension=dimension, value=value, reason=Fails.LAYOUT)
    key, short = near
    return Other(
        dimension=dimension,
        value=value,
        reason=Fails.MEMORY,
        short_bytes=short,
        choice=engine.choice(key, rig),
    )
