"""What Transformer Engine keeps of matrix products in fp8 or fp4.

A product's input is kept as the backward pass reads it, quantized in one direction; attention's own tensors, activation
functions and norms stay in 16 bit (`Linear`, `LayerNormLinear`, `GroupedLinear`: `saved_inputmat`,
`update_usage(rowwise_usage=False, columnwise_usage=True)`). A weight has copies in both directions, which live on from
one micro-batch to the next (`is_first_microbatch`, `keep_fp8_weight_transpose_cache`); a weight that is itself fp8 is
the first of them. On Blackwell, per-tensor scales need one direction only: there the second is counted in vain.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from planner.ledger import Category, Entry
from planner.memory.inventory import Tensor
from planner.memory.terms import item
from planner.training.setup import Setup

KEPT: Final[Mapping[str, float]] = {
    "tensorwise": 1,
    "rowwise": 1,
    "blockwise": 1 + 4 / 128,
    "mxfp8": 1 + 1 / 32,
    "nvfp4": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
}
"""Bytes per element with its scales: fp32 for 128 elements, e8m0 for 32, e4m3 for 16."""
DIRECTIONS: Final = 2


def low_format(setup: Setup) -> str | None:
    """The format of Transformer Engine's products, None where they stay in 16 bit."""
    precision = setup.training.precision
    return (precision.fp4 or precision.fp8) if setup.megatron else None


def kept_input_bytes(setup: Setup) -> float:
    """Bytes per element of a product's input until the backward pass."""
    return KEPT.get(low_format(setup) or "", 2)


def weight_copies(setup: Setup, tensors: Sequence[Tensor]) -> list[Entry]:
    """Quantized copies of the layers' matrices, beside what is counted as weights."""
    e = KEPT.get(low_format(setup) or "")
    params = sum(t.rows * t.columns * t.count for t in tensors if t.quantizable and t.name)
    if e is None or not params:
        return []
    copies = DIRECTIONS - (setup.param_bytes < setup.compute_bytes)
    symbols = {"P": params, "d": copies, "e": e}
    amount = -(-params * copies * e // 1)
    return [
        item(Category.WEIGHTS, "low_precision_weights", amount, "ceil(P*d*e)", symbols, "te_low_precision")
    ]
