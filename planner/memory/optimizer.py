"""Optimizer states, in elements of what each optimizer keeps for tensors of given shapes.

Every function counts one tensor's states (or those of many, where the count is linear); dividing over ranks and
multiplying by the bytes of an element is the caller's.
"""

from collections.abc import Iterable
from typing import Final

from planner.memory.inventory import Tensor
from planner.units import ceil_div

SMALL_TENSOR: Final = 4096
"""bitsandbytes keeps 32-bit states for tensors with fewer elements (`min_8bit_size`)."""

BLOCK_8BIT: Final = 256
"""Elements that share one fp32 maximum in 8-bit states. bitsandbytes `Optimizer2State`; 2048 before 0.44."""

MOMENTS: Final[dict[str, int]] = {
    "adamw": 2, "adam": 2, "adamw_8bit": 2, "sgd": 0, "sgd_momentum": 1, "lion": 1, "lion_8bit": 1,
}  # fmt: skip
"""Elements of state for each parameter. Kingma and Ba 2015; Sutskever et al. 2013; Chen et al. 2023 (Lion)."""


def is_small(tensor: Tensor) -> bool:
    """Whether 8-bit optimizers leave this tensor's states in fp32."""
    return tensor.parameter < SMALL_TENSOR


def state_8bit_bytes(params: int, moments: int) -> int:
    """Blockwise 8-bit states: a byte an element and an fp32 maximum per block. Dettmers et al. 2022, section 2."""
    return moments * (params + 4 * ceil_div(params, BLOCK_8BIT))


def adafactor_factored(tensors: Iterable[Tensor]) -> int:
    """Row and column statistics of every matrix. Shazeer and Stern 2018, algorithm 4; no momentum."""
    return sum((t.rows + t.columns) * t.count for t in tensors if t.is_matrix)


def vector_params(tensors: Iterable[Tensor]) -> int:
    """Elements outside matrices."""
    return sum(t.params for t in tensors if not t.is_matrix)


def takes_muon(tensor: Tensor) -> bool:
    """Muon steps the matrices inside the layers; embeddings, head and vectors go to AdamW. Jordan et al. 2024."""
    return tensor.is_matrix and tensor.place in {"layers", "experts"}


def galore_states(rows: int, columns: int, rank: int) -> int:
    """GaLore: two Adam moments of the gradient projected to `rank` along the shorter side. Zhao et al. 2024."""
    return 2 * max(rows, columns) * min(rank, rows, columns)


def galore_projector(rows: int, columns: int, rank: int) -> int:
    """GaLore: the projection matrix, shorter side by `rank`. Zhao et al. 2024, algorithm 2."""
    return min(rows, columns) * min(rank, rows, columns)
