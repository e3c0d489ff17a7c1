"""What the multiprocessors of a card can take in and how fast they tick, beside the bandwidth of its memory."""

from typing import Final

from planner.hardware import Gpu

LANES: Final = {(6, 0): 64, (7, 0): 64, (7, 5): 64, (8, 0): 64}
"""fp32 lanes of a multiprocessor where not 128 (CUDA programming guide, arithmetic by compute capability)."""
MOST_LANES: Final = 128
CLOCK_GHZ: Final = {
    (6, 0): 1.48, (6, 1): 1.6, (7, 0): 1.53, (7, 5): 1.6, (8, 0): 1.41, (8, 6): 1.75, (8, 7): 1.3, (8, 9): 2.5,
    (9, 0): 1.98, (10, 0): 1.97, (10, 3): 1.97, (12, 0): 2.5, (12, 1): 2.5,
}  # fmt: skip
"""Boost clock of a generation (NVIDIA architecture white papers from P100 to Blackwell)."""
OTHER_CLOCK_GHZ: Final = 1.7
REFERENCE_GHZ: Final = 1.41
"""The clock that the fixed time of a layer is told for: an A100's."""


def unit_cycles_per_s(gpu: Gpu) -> float | None:
    """Multiprocessors times clock: the rated fp32 operations over two a lane."""
    if gpu.flops.fp32 is None:
        return None
    return gpu.flops.fp32 / 2 / LANES.get(gpu.compute_capability or (0, 0), MOST_LANES)


def pace(gpu: Gpu) -> float:
    """Time of a dependent kernel of a few operations over that on an A100: the inverse of the clocks."""
    return REFERENCE_GHZ / CLOCK_GHZ.get(gpu.compute_capability or (0, 0), OTHER_CLOCK_GHZ)
