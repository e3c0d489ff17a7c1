"""Properties that hold whatever is asked for, and replays on cards that are too small."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.units import MIB
from profiler.allocator.caching import CachingAllocator, OutOfMemoryError
from profiler.allocator.replay import FREE, Event, fits, make_allocator, replay
from profiler.allocator.settings import AllocatorSettings, parse_settings

CONFIGURATIONS = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:32",
    "roundup_power2_divisions:4",
    "expandable_segments:True,large_segment_size_mb:12",
    "garbage_collection_threshold:0.3,per_process_memory_fraction:0.9",
]
SIZES = st.integers(0, 27).flatmap(lambda bits: st.integers(0, 2**bits))


@st.composite
def requests(draw: st.DrawFn) -> list[Event]:
    """Requests, each freed at most once and after it was made."""
    events: list[Event] = []
    live: list[int] = []
    sizes: list[int] = draw(st.lists(SIZES, max_size=60))
    for name, size in enumerate(sizes):
        if live and draw(st.sampled_from([True, False])):
            events.append((live.pop(draw(st.integers(0, len(live) - 1))), FREE))
        events.append((name, size))
        live.append(name)
    return events


def run(subject: CachingAllocator, events: Sequence[Event]) -> set[int]:
    """Run events; what can't be had is left out. Returns what is still held."""
    held: set[int] = set()
    for name, size in events:
        if size == FREE:
            subject.free(name)
            held.discard(name)
            continue
        try:
            subject.allocate(name, size)
        except OutOfMemoryError:
            continue
        else:
            held.add(name)
    return held


def check_tiling(subject: CachingAllocator) -> None:
    """Mapped blocks follow each other without gap or overlap, and add up to what is reserved."""
    blocks = list(subject.blocks())
    assert sum(block.bytes for block in blocks) == subject.count.reserved
    assert sum(block.bytes for block in blocks if not block.is_free) == subject.count.allocated
    for block, behind in pairwise(blocks):
        assert block.address + block.bytes <= behind.address
        if block.segment == behind.segment and block.address + block.bytes == behind.address:
            assert block.after is behind
            assert behind.before is block
            assert not (block.is_free and behind.is_free)
    for block in blocks:
        assert block.bytes >= block.requested_bytes
        assert block.bytes % 512 == 0


@pytest.mark.parametrize("text", CONFIGURATIONS)
@given(events=requests(), capacity_mib=st.sampled_from([None, 300, 90]))
@settings(max_examples=40, deadline=None)
def test_blocks_tile_their_segments(text: str, events: list[Event], capacity_mib: int | None) -> None:
    capacity = None if capacity_mib is None else capacity_mib * MIB
    subject = make_allocator(parse_settings(text), capacity)
    held = run(subject, events)
    check_tiling(subject)
    assert subject.count.requested <= subject.count.allocated <= subject.count.reserved
    assert capacity is None or subject.count.reserved <= capacity
    for name in held:
        subject.free(name)
    check_tiling(subject)
    assert subject.count.allocated == subject.count.requested == 0
    for block in subject.blocks():
        before, after = block.before, block.after
        assert before is None or not before.is_mapped
        assert after is None or not after.is_mapped
    subject.release_cached()
    assert subject.count.reserved == 0


@given(events=requests())
@settings(max_examples=30, deadline=None)
def test_a_card_as_large_as_the_peak_is_enough(events: list[Event]) -> None:
    plain = AllocatorSettings()
    free = replay(events, plain)
    assert fits(events, plain, free.peak_reserved_bytes)
    assert len(free.allocated_bytes) == len(events)
    assert all(a <= r for a, r in zip(free.allocated_bytes, free.reserved_bytes, strict=True))


def test_a_replay_stops_at_the_event_that_does_not_fit() -> None:
    events = [(1, 40 * MIB), (2, 40 * MIB), (1, FREE), (3, 30 * MIB), (4, 60 * MIB), (5, 1)]
    seen = replay(events, AllocatorSettings(), 120 * MIB)
    assert seen.ran_out is not None
    assert (seen.ran_out.event, seen.ran_out.cause) == (4, "demand")
    assert (seen.ran_out.allocated_bytes, seen.ran_out.reserved_bytes) == (70 * MIB, 80 * MIB)
    assert list(seen.allocated_bytes) == [size * MIB for size in (40, 80, 40, 70)]
    assert replay(events, AllocatorSettings(), 140 * MIB).ran_out is not None
    enough = replay(events, AllocatorSettings(), 142 * MIB)
    assert enough.ran_out is None
    assert enough.peak_reserved_bytes == 142 * MIB


def test_fragmentation_is_told_from_demand() -> None:
    events = [(1, 9 * MIB), (2, 9 * MIB), (3, 9 * MIB), (4, 9 * MIB), (1, FREE), (3, FREE), (5, 30 * MIB)]
    seen = replay(events, AllocatorSettings(), 60 * MIB).ran_out
    assert seen is not None
    assert (seen.event, seen.cause) == (6, "fragmentation")
    assert fits(events, parse_settings("expandable_segments:True,large_segment_size_mb:11"), 66 * MIB)
