"""What the allocator does, by worked examples."""

import pytest

from planner.units import MIB
from profiler.allocator.caching import CachingAllocator, OutOfMemoryError
from profiler.allocator.replay import make_allocator
from profiler.allocator.settings import parse_settings


def allocator(text: str = "", capacity_mib: int | None = None) -> CachingAllocator:
    return make_allocator(parse_settings(text), None if capacity_mib is None else capacity_mib * MIB)


def mib(subject: CachingAllocator) -> tuple[float, float]:
    return subject.count.allocated / MIB, subject.count.reserved / MIB


def test_small_requests_share_a_segment_of_2_mib() -> None:
    subject = allocator()
    for name in range(4096):
        subject.allocate(name, 1)
    assert mib(subject) == (2, 2)
    subject.allocate(4096, 1)
    assert subject.count.reserved == 4 * MIB


def test_requests_up_to_10_mib_share_a_segment_of_20_mib() -> None:
    subject = allocator()
    subject.allocate(1, 9 * MIB)
    subject.allocate(2, 9 * MIB)
    assert mib(subject) == (18, 20)
    subject.allocate(3, 3 * MIB)
    assert mib(subject) == (21, 40)


def test_pools_do_not_mix() -> None:
    subject = allocator()
    subject.allocate(1, 9 * MIB)
    subject.allocate(2, MIB)
    assert mib(subject) == (10, 22)


def test_a_rest_of_up_to_1_mib_stays_with_its_block() -> None:
    subject = allocator()
    subject.allocate(1, 11 * MIB)
    assert mib(subject) == (12, 12)
    assert subject.count.requested == 11 * MIB


def test_the_smallest_block_that_fits_is_taken() -> None:
    subject = allocator()
    for name, size in ((1, 40), (2, 30), (3, 34)):
        subject.allocate(name, size * MIB)
    for name in (1, 2, 3):
        subject.free(name)
    subject.allocate(4, 32 * MIB)
    assert sorted(block.bytes // MIB for block in subject.blocks()) == [2, 30, 32, 40]
    assert subject.count.reserved == 104 * MIB


def test_freed_neighbours_become_one_block() -> None:
    subject = allocator()
    for name in (1, 2, 3):
        subject.allocate(name, 6 * MIB)
    for name in (1, 3, 2):
        subject.free(name)
    subject.allocate(4, 20 * MIB)
    assert mib(subject) == (20, 20)


def test_what_is_asked_for_decides_the_pool_even_where_a_large_block_is_free() -> None:
    subject = allocator()
    subject.allocate(1, 20 * MIB)
    subject.free(1)
    subject.allocate(2, 512)
    assert subject.count.reserved == 22 * MIB


def test_cached_segments_are_given_back_before_memory_runs_out() -> None:
    subject = allocator(capacity_mib=100)
    for name in (1, 2):
        subject.allocate(name, 40 * MIB)
    subject.free(1)
    subject.free(2)
    subject.allocate(3, 90 * MIB)
    assert mib(subject) == (90, 90)
    assert subject.count.retries == 1


def test_a_segment_partly_in_use_cannot_be_given_back() -> None:
    subject = allocator(capacity_mib=60)
    for name in (1, 2):
        subject.allocate(name, 9 * MIB)
        subject.allocate(10 + name, 9 * MIB)
    subject.free(1)
    subject.free(2)
    with pytest.raises(OutOfMemoryError) as caught:
        subject.allocate(3, 30 * MIB)
    error = caught.value
    assert (error.cause, error.requested_bytes, error.segment_bytes) == ("fragmentation", 30 * MIB, 30 * MIB)
    assert (error.allocated_bytes, error.reserved_bytes) == (18 * MIB, 40 * MIB)
    with pytest.raises(OutOfMemoryError) as caught:
        subject.allocate(4, 43 * MIB)
    assert caught.value.cause == "demand"


def test_growing_segments_move_free_pages_to_where_they_are_needed() -> None:
    subject = allocator("expandable_segments:True", capacity_mib=80)
    subject.allocate(1, 40 * MIB)
    subject.allocate(2, 20 * MIB)
    subject.free(1)
    subject.allocate(3, 50 * MIB)  # behind block 2: the two pages before it are unmapped for this
    assert mib(subject) == (70, 80)
    assert subject.count.retries == 1


def test_growing_segments_map_20_mib_at_a_time() -> None:
    subject = allocator("expandable_segments:True")
    subject.allocate(1, 21 * MIB)
    assert mib(subject) == (21, 40)
    subject.allocate(2, 19 * MIB)
    assert mib(subject) == (40, 40)
    subject.allocate(3, 512)
    assert subject.count.reserved == 42 * MIB


def test_growing_segments_unmap_whole_pages_only() -> None:
    subject = allocator("expandable_segments:True")
    for name, size in ((1, 10), (2, 50), (3, 10)):
        subject.allocate(name, size * MIB)
    assert mib(subject) == (70, 80)
    subject.free(2)
    subject.release_cached()
    assert mib(subject) == (20, 40)  # of 10..60 MiB the pages from 20 to 60, the free end of the last stays
    subject.allocate(4, 50 * MIB)
    assert mib(subject) == (70, 80)  # lowest addresses first: into the gap
    for name in (1, 3, 4):
        subject.free(name)
    subject.release_cached()
    assert mib(subject) == (0, 0)


def test_blocks_over_the_split_limit_are_kept_whole() -> None:
    subject = allocator("max_split_size_mb:100")
    subject.allocate(1, 200 * MIB)
    subject.free(1)
    subject.allocate(2, 50 * MIB)  # below the limit: may not take the large block
    assert mib(subject) == (50, 250)
    subject.allocate(3, 150 * MIB)  # 50 MiB larger than asked is more than the 20 MiB allowed
    assert mib(subject) == (200, 400)
    subject.allocate(4, 181 * MIB)  # within 20 MiB
    assert mib(subject) == (400, 400)


def test_only_as_many_large_blocks_are_given_back_as_needed() -> None:
    subject = allocator("max_split_size_mb:100", capacity_mib=700)
    for name, size in ((1, 300), (2, 200), (3, 110)):
        subject.allocate(name, size * MIB)
    for name in (1, 2, 3):
        subject.free(name)
    subject.allocate(4, 140 * MIB)
    assert mib(subject) == (140, 550)  # the 200 MiB block went
    assert subject.count.retries == 0


def test_idle_blocks_are_collected_above_the_threshold() -> None:
    text = "garbage_collection_threshold:0.5"
    assert _after_idling(f"{text},per_process_memory_fraction:0.99") == (135, 270)  # 240 held, 198 allowed
    assert _after_idling(text) == (135, 370)  # without a share of the card nothing is collected


def _after_idling(text: str) -> tuple[float, float]:
    """A block of 100 MiB idle for ten requests, one of 120 MiB for none, then one that neither can serve."""
    subject = allocator(text, capacity_mib=400)
    for name, size in ((0, 5), (1, 100), (2, 120)):
        subject.allocate(name, size * MIB)
    subject.free(1)
    for name in range(10, 20):
        subject.allocate(name, 9 * MIB)
        subject.free(name)
    subject.free(2)
    subject.allocate(3, 130 * MIB)
    return mib(subject)


def test_the_processs_share_is_a_limit() -> None:
    subject = allocator("per_process_memory_fraction:0.5", capacity_mib=100)
    assert subject.limit_bytes == 50 * MIB
    with pytest.raises(OutOfMemoryError):
        subject.allocate(1, 52 * MIB)
    subject.allocate(2, 50 * MIB)


def test_asking_for_nothing_takes_nothing() -> None:
    subject = allocator()
    subject.allocate(1, 0)
    subject.free(1)
    subject.free(2)
    assert mib(subject) == (0, 0)
