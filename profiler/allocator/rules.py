"""The allocator's sizes: what a request is rounded to, what a segment holds, when a block is split.

Source: `round_size`, `roundup_power2_next_division`, `get_allocation_size` and `should_split` in
`c10/cuda/CUDACachingAllocator.cpp`, constants in `c10/core/AllocatorConfig.h`, PyTorch 2.13.
"""

from typing import Final

from planner.units import MIB
from profiler.allocator.settings import NUM_ROUNDUP_INTERVALS, AllocatorSettings

MIN_BLOCK_BYTES: Final = 512
"""`kMinBlockSize`."""

SMALL_BYTES: Final = MIB
"""`kSmallSize`: largest request of the small pool."""

SMALL_SEGMENT_BYTES: Final = 2 * MIB
"""`kSmallBuffer`."""

MIN_LARGE_BYTES: Final = 10 * MIB
"""`kMinLargeAlloc`: requests from here on get a segment of their own."""

ROUND_LARGE_BYTES: Final = 2 * MIB
"""`kRoundLarge`."""

_FIRST_INTERVAL: Final = MIB.bit_length()


def round_request(size_bytes: int, divisions: tuple[int, ...]) -> int:
    """Bytes of the block that a request needs (`round_size`).

    Args:
        size_bytes: What is asked for, above 0.
        divisions: `AllocatorSettings.roundup_power2_divisions`.
    """
    if size_bytes < MIN_BLOCK_BYTES:
        return MIN_BLOCK_BYTES
    interval = min(max(size_bytes.bit_length() - _FIRST_INTERVAL, 0), NUM_ROUNDUP_INTERVALS - 1)
    steps = divisions[interval]
    if steps > 1 and size_bytes > MIN_BLOCK_BYTES * steps:
        return _next_division(size_bytes, steps)
    return -(-size_bytes // MIN_BLOCK_BYTES) * MIN_BLOCK_BYTES


def _next_division(size_bytes: int, divisions: int) -> int:
    """The next of the equal steps between two powers of two: 1200 in 4 steps from 1024 to 2048 is 1280."""
    floor: int = 1 << (size_bytes.bit_length() - 1)
    if size_bytes == floor:
        return size_bytes
    step = floor >> (divisions.bit_length() - 1)
    return -(-size_bytes // step) * step if step else floor << 1


def segment_bytes(block_bytes: int, settings: AllocatorSettings) -> int:
    """Bytes asked of `cudaMalloc` for a block of that size (`get_allocation_size`)."""
    if block_bytes <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if block_bytes < MIN_LARGE_BYTES:
        return settings.large_segment_bytes
    return -(-block_bytes // ROUND_LARGE_BYTES) * ROUND_LARGE_BYTES


def is_split(rest_bytes: int, block_bytes: int, *, small: bool, settings: AllocatorSettings) -> bool:
    """Whether what is left of a found block becomes a block of its own (`should_split`).

    Args:
        rest_bytes: Found block less the needed one.
        block_bytes: The needed block.
        small: In the small pool.
        settings: The allocator's.
    """
    if small or settings.expandable_segments:
        return rest_bytes >= MIN_BLOCK_BYTES
    limit = settings.max_split_bytes
    return rest_bytes > SMALL_BYTES and (limit is None or block_bytes < limit)
