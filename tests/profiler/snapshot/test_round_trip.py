"""The simulated allocator's own figures come back from the snapshot that it would have left."""

import pytest

from planner.units import GIB, MIB
from profiler.allocator.replay import FREE, replay
from profiler.allocator.settings import AllocatorSettings
from profiler.snapshot import read_snapshot
from profiler.snapshot.document import document_from
from profiler.snapshot.history import run
from profiler.snapshot.plain import load_plain
from profiler.trace.answer import MAX_POINTS
from tests.profiler.snapshot.writer import LINEAR, STATES, Recorded, random_events, record

SETTINGS = {
    "default": AllocatorSettings(),
    "expandable": AllocatorSettings(expandable_segments=True),
    "roundup": AllocatorSettings(roundup_power2_divisions=(4,) * 16),
    "max_split": AllocatorSettings(max_split_bytes=24 * MIB),
}


def levels(recorded: Recorded) -> tuple[list[tuple[int, int]], int]:
    """Allocated and reserved after each entry as read back, and how many sizes were estimated."""
    document = document_from(load_plain(recorded.data()))
    course = run(document.histories[0], document.segments, document.settings)
    assert course.skipped == 0
    return list(zip(course.allocated[1:], course.reserved[1:], strict=True)), course.estimated


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(4))
def test_every_level_of_a_whole_record_comes_back(name: str, seed: int) -> None:
    recorded = record(random_events(seed, 400), SETTINGS[name])
    seen, estimated = levels(recorded)
    assert seen == recorded.levels
    assert estimated == 0


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
def test_a_record_that_lost_its_start(name: str, seed: int, share: float) -> None:
    whole = record(random_events(seed, 400), SETTINGS[name])
    cut = whole.cut(int(len(whole.levels) * share))
    seen, estimated = levels(cut)
    assert [reserved for _, reserved in seen] == [reserved for _, reserved in cut.levels]
    assert seen[-1] == cut.levels[-1]
    off = [true - read for (true, _), (read, _) in zip(cut.levels, seen, strict=True)]
    assert min(off) >= 0
    assert max(off) <= estimated * MIB


@pytest.mark.parametrize("protocol", range(6))
def test_the_view_has_the_replays_peaks(protocol: int) -> None:
    events = random_events(7, 600)
    recorded = record(events, SETTINGS["default"])
    simulated = replay(events, SETTINGS["default"])
    device = read_snapshot(recorded.data(protocol)).devices[0]
    assert device.peak_allocated_bytes == simulated.peak_allocated_bytes
    assert device.peak_reserved_bytes == simulated.peak_reserved_bytes
    assert device.now.allocated_bytes == simulated.allocated_bytes[-1]
    assert device.now.reserved_bytes == simulated.reserved_bytes[-1]
    assert len(device.timeline) <= MAX_POINTS
    assert max(point.allocated_bytes for point in device.timeline) == simulated.peak_allocated_bytes
    assert sum(pool.level.allocated_bytes for pool in device.pools) == device.now.allocated_bytes
    assert all(
        sum(size for _, size in point.categories) == point.allocated_bytes for point in device.timeline
    )
    assert sum(device.categories().values()) == device.peak_allocated_bytes


def test_owners_of_the_peak() -> None:
    events = [(0, 30 * MIB), (1, 8 * MIB), (2, 40 * MIB), (2, FREE), (3, 2 * MIB)]
    recorded = record(events, SETTINGS["default"], stacks={0: LINEAR, 1: STATES})
    device = read_snapshot(recorded.data()).devices[0]
    assert [note.requested_bytes for note in device.largest] == [40 * MIB, 30 * MIB, 8 * MIB]
    unknown, linear, states = device.largest
    assert (unknown.category, unknown.frame, unknown.op, unknown.pool) == ("unknown", None, "", "large")
    assert linear.frame is not None
    assert (linear.frame.filename, linear.frame.line, linear.op) == (
        "/home/user/train/model.py",
        88,
        "forward",
    )
    assert (linear.module, linear.category) == ("linear.py:125", "unknown")
    assert states.category == "optimizer_states"
    assert device.categories()["optimizer_states"] == 8 * MIB
    assert dict(device.timeline[-1].categories)["optimizer_states"] == 8 * MIB


def test_split_off_memory_is_told_from_cached_segments() -> None:
    events = [(0, 12 * MIB), (1, 5 * MIB), (2, 5 * MIB), (1, FREE), (0, FREE)]
    device = read_snapshot(record(events, SETTINGS["default"]).data()).devices[0]
    assert device.now.reserved_bytes == 32 * MIB
    assert device.now.inactive_split_bytes == 15 * MIB
    assert device.now.fragmented_frac == 15 / 32
    assert [entry.name for entry in device.ledger().entries] == ["cache"]


@pytest.mark.parametrize("name", ["default", "expandable"])
@pytest.mark.parametrize("seed", range(6))
def test_running_out_is_told_as_the_replay_tells_it(name: str, seed: int) -> None:
    events = random_events(seed, 400)
    capacity = replay(events, SETTINGS[name]).peak_allocated_bytes - 1
    simulated = replay(events, SETTINGS[name], capacity)
    assert simulated.ran_out is not None
    device = read_snapshot(record(events, SETTINGS[name], capacity).data()).devices[0]
    assert device.num_ooms == 1
    stop = device.ooms[0]
    assert stop.allocated_bytes == simulated.ran_out.allocated_bytes
    assert stop.reserved_bytes == simulated.ran_out.reserved_bytes
    assert stop.cause == simulated.ran_out.cause


def test_fragmentation_is_told_from_demand() -> None:
    parts = [(key, 5 * MIB) for key in range(12)]
    freed = [(key, FREE) for key in range(12) if key % 4]
    recorded = record([*parts, *freed, (12, 30 * MIB)], SETTINGS["default"], 60 * MIB)
    stop = read_snapshot(recorded.data()).devices[0].ooms[0]
    assert (stop.cause, stop.allocated_bytes, stop.reserved_bytes) == ("fragmentation", 15 * MIB, 60 * MIB)


def test_a_limit_of_the_process_is_no_lack_of_memory() -> None:
    recorded = record([(0, 300 * MIB), (1, 200 * MIB)], SETTINGS["default"], 400 * MIB, free_bytes=10 * GIB)
    stop = read_snapshot(recorded.data()).devices[0].ooms[0]
    assert (stop.cause, stop.requested_bytes, stop.free_bytes) == ("limit", 200 * MIB, 10 * GIB)
