"""Each rule by a worked example. Function names are those of `c10/cuda/CUDACachingAllocator.cpp`."""

import pytest

from planner.units import GIB, MIB
from profiler.allocator.rules import is_split, round_request, segment_bytes
from profiler.allocator.settings import NO_ROUNDUP, AllocatorSettings, parse_settings

DEFAULT = AllocatorSettings()


@pytest.mark.parametrize(
    ("asked", "block"), [(1, 512), (511, 512), (512, 512), (513, 1024), (MIB, MIB), (MIB + 1, MIB + 512)]
)
def test_round_size_to_512_bytes(asked: int, block: int) -> None:
    assert round_request(asked, NO_ROUNDUP) == block


@pytest.mark.parametrize(
    ("asked", "divisions", "block"),
    [
        (1200, 2, 1280 + 256),  # above 2 x 512 bytes: two steps between 1024 and 2048
        (1200, 4, 1536),  # not above 4 x 512 bytes: plain rounding
        (4800, 4, 5120),  # 1200 of the source's comment, in units of 4: 4096, 5120, 6144, 7168
        (8192, 4, 8192),
        (5 * MIB + 1, 8, 5 * MIB + MIB // 2),
        (65 * GIB, 4, 80 * GIB),  # beyond the last interval its divisions still count
    ],
)
def test_round_size_to_divisions_of_a_power_of_two(asked: int, divisions: int, block: int) -> None:
    settings = parse_settings(f"roundup_power2_divisions:{divisions}")
    assert round_request(asked, settings.roundup_power2_divisions) == block


def test_the_interval_decides_the_divisions() -> None:
    divisions = parse_settings("roundup_power2_divisions:[1:1,2:2,>:4]").roundup_power2_divisions
    assert round_request(MIB + 1, divisions) == MIB + 512
    assert round_request(2 * MIB + 1, divisions) == 3 * MIB
    assert round_request(4 * MIB + 1, divisions) == 5 * MIB


@pytest.mark.parametrize(
    ("block", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 512, 12 * MIB),
        (33 * MIB, 34 * MIB),
    ],
)
def test_get_allocation_size(block: int, segment: int) -> None:
    assert segment_bytes(block, DEFAULT) == segment


def test_get_allocation_size_with_a_larger_segment() -> None:
    settings = parse_settings("large_segment_size_mb:64")
    assert segment_bytes(2 * MIB, settings) == 64 * MIB
    assert segment_bytes(10 * MIB, settings) == 10 * MIB


def test_should_split() -> None:
    assert is_split(512, MIB, small=True, settings=DEFAULT)
    assert not is_split(0, MIB, small=True, settings=DEFAULT)
    assert not is_split(MIB, 9 * MIB, small=False, settings=DEFAULT)
    assert is_split(MIB + 512, 9 * MIB, small=False, settings=DEFAULT)
    limited = parse_settings("max_split_size_mb:100")
    assert is_split(50 * MIB, 99 * MIB, small=False, settings=limited)
    assert not is_split(50 * MIB, 100 * MIB, small=False, settings=limited)
    growing = parse_settings("expandable_segments:True")
    assert is_split(512, 9 * MIB, small=False, settings=growing)
