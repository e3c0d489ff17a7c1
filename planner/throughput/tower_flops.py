"""Operations and memory traffic of a micro-batch's pictures: the layers of the tower, and the projector."""

from collections.abc import Mapping
from typing import Final

from planner.model.spec import ModelSpec
from planner.model.tower import Projector
from planner.placement import Share
from planner.throughput import flops as fl
from planner.throughput.stage_load import Passes, StageLoad
from planner.training.pictures import Learns, Pictures, pictures_of
from planner.training.setup import Setup
from planner.training.step import Step

PRODUCTS: Final[Mapping[Learns, int]] = {"trained": 3, "passed": 2, "frozen": 1}
"""Forward, gradient of the input, gradient of the weight, by what of the tower needs a gradient."""
ATTENTION_PRODUCTS: Final = 3.5
"""Of attention, forward and backward, in units of one forward pass."""


def tower_load(share: Share, setup: Setup, model: ModelSpec, *, again: bool = True) -> StageLoad | None:
    """What the pictures ask of one card; None where it has none.

    Args:
        share: The card's part of the job.
        setup: The job in numbers.
        model: The model.
        again: Whether what checkpointing does again is counted.
    """
    pictures = pictures_of(Step(share, setup, model, (), ()))
    if pictures is None:
        return None
    passes = _passes(pictures, again=again)
    full = attention = moved = 0.0
    inner, tokens, e = pictures.step, pictures.all_patches, setup.compute_bytes
    window, sequence = pictures.tower.window_patches, pictures.sequence
    for number, kind in enumerate(inner.kinds):
        load = fl.layer_load(kind.layer, inner.model.hidden_size)
        seen = min(window, sequence) if window and number else sequence
        full += kind.count * fl.matrix_flops(tokens, load.weights) * passes.dense
        attention += kind.count * fl.attention_flops(tokens, seen, load.score_width) * passes.attention
        operands = (tokens * load.widths + load.weights) * e
        moved += kind.count * (operands * passes.dense + tokens * load.stream * e * passes.stream)
    full += fl.matrix_flops(pictures.all_tokens, _weights(pictures.tower.projector)) * PRODUCTS[pictures.mode]
    return StageLoad(full, 0.0, attention, moved, sum(kind.count for kind in inner.kinds) * passes.visits)


def _passes(pictures: Pictures, *, again: bool) -> Passes:
    products, backward = PRODUCTS[pictures.mode], pictures.mode != "frozen"
    more = float(again and backward and pictures.step.setup.checkpointed)
    return Passes(
        products + more,
        (ATTENTION_PRODUCTS if backward else 1.0) + more,
        1 + backward + more,
        1 + backward + more,
    )


def _weights(one: Projector) -> int:
    """Elements of the projector's matrices that a token passes."""
    last = one.middle * one.out if one.middle else 0
    merged = one.merged * one.reads
    return (one.reads * (one.middle or one.out) + last) * (1 + one.taps) + merged
