"""Plans made by hand, for figures and sentences: nothing here is computed by a formula."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.ledger import ALWAYS, TRAINING_PHASES, Category, Entry, Layer, Phase, make_ledger
from planner.plan_types import DevicePlan, PeakBand, Plan, Verdict
from planner.units import gib_bytes
from ui.answers import answer
from ui.examples import default_document

if TYPE_CHECKING:
    from collections.abc import Sequence

REFERENCE = "number_formats"


def entry(
    category: Category, size_gib: float, *, phases: frozenset[Phase] = ALWAYS, estimate: bool = False
) -> Entry:
    """One entry of a size."""
    return Entry(
        category,
        "layer_weights",
        gib_bytes(size_gib),
        phases,
        "x",
        (("x", 1),),
        REFERENCE,
        Layer.ALLOCATED,
        estimate,
    )


def device(
    indices: Sequence[int],
    *,
    usable_gib: float | None = 24.0,
    weights_gib: float = 10.0,
    logits_gib: float = 4.0,
    name: str = "GeForce RTX 4090",
    verdict: Verdict = Verdict.FITS,
) -> DevicePlan:
    """A group whose logits exist in the loss only."""
    ledger = make_ledger(
        (
            entry(Category.WEIGHTS, weights_gib),
            entry(Category.LOGITS, logits_gib, phases=frozenset({Phase.LOSS})),
            entry(Category.ALLOCATOR, 0.5, estimate=True),
        ),
        TRAINING_PHASES,
    )
    phase, peak = ledger.peak()
    usable = None if usable_gib is None else gib_bytes(usable_gib)
    return DevicePlan(
        indices=tuple(indices),
        gpu_id="rtx-4090-24gb",
        gpu_name=name,
        stage=0,
        layers=(0, 1),
        usable_bytes=usable,
        usable_source="read",
        ledger=ledger,
        peak_phase=phase,
        peak_bytes=peak,
        band=PeakBand(round(peak * 0.9), round(peak * 1.1), 0.9, 40, "task"),
        headroom_bytes=None if usable is None else usable - peak,
        verdict=verdict,
    )


def plan(*devices: DevicePlan, fullest: int = 0) -> Plan:
    """A plan of these groups; everything else is of the default question."""
    base = answer(default_document()).plan
    assert base is not None
    return replace(base, devices=devices, fullest=fullest, verdict=devices[fullest].verdict)
