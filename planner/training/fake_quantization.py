"""Quantization-aware training: what fake quantization keeps beside plain training.

Each quantized linear makes a fake-quantized copy of its weight, and of its input, and multiplies those: the copies are
what its product keeps for the backward pass. The straight-through estimator keeps a mask of what was not clamped, one
byte an element (PyTorch `fake_quantize_per_channel_affine_cachemask`). Parameters, gradients and optimizer states stay
as they are.
"""

from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory.terms import item
from planner.model.spec import Linear
from planner.scenario import Scenario
from planner.training.step import Kind, Step

MASK_BYTES: Final = 1
KEPT: Final = frozenset({Phase.FORWARD, Phase.LOSS, Phase.BACKWARD})
AGAIN: Final = frozenset({Phase.BACKWARD})


def qat_entries(step: Step, scenario: Scenario) -> list[Entry]:
    """Copies and masks: of every layer, or of the one that is computed again under checkpointing.

    An estimate from above: while the backward pass frees them layer by layer, gradients come.
    """
    asked = scenario.quantization_aware
    if asked is None or not step.kinds:
        return []
    checkpointed = step.setup.checkpointed
    kinds = [(step.largest, 1)] if checkpointed else [(kind, kind.count) for kind in step.kinds]
    phases = AGAIN if checkpointed else KEPT
    entries: list[Entry] = []
    if asked.weights is not None:
        entries.append(_weights(step, kinds, phases))
    if asked.activations is not None:
        entries += [_inputs(step, kind, count, phases) for kind, count in kinds]
    return entries


def _weights(step: Step, kinds: list[tuple[Kind, int]], phases: frozenset[Phase]) -> Entry:
    params = sum(count * linear.weight_params for kind, count in kinds for linear in _quantized(kind))
    params = -(-params // step.share.tensor)
    e = step.setup.compute_bytes
    return item(
        Category.ACTIVATIONS,
        "fake_quantized_weights",
        params * (e + MASK_BYTES),
        "P*(e + m)",
        {"P": params, "e": e, "m": MASK_BYTES},
        "fake_quantize",
        phases=phases,
        estimate=True,
    )


def _inputs(step: Step, kind: Kind, count: int, phases: frozenset[Phase]) -> Entry:
    width = sum(linear.in_features for linear in _quantized(kind) if linear.copies == 1)
    tokens, e = step.setup.batch * kind.sequence, step.setup.compute_bytes
    return item(
        Category.ACTIVATIONS,
        "fake_quantized_inputs",
        count * tokens * width * (e + MASK_BYTES),
        "L*t*w*(e + m)",
        {"L": count, "t": tokens, "w": width, "e": e, "m": MASK_BYTES},
        "fake_quantize",
        phases=phases,
        estimate=True,
    )


def _quantized(kind: Kind) -> list[Linear]:
    return [linear for linear in kind.layer.linears if linear.quantizable]
