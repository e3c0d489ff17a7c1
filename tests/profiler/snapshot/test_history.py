"""What a record tells beyond a plain replay: several devices, streams, private pools, older formats, gaps."""

import pickle
from typing import Any

import pytest

from planner.units import MIB
from profiler.snapshot import MemoryFile, read_snapshot

Values = dict[str, Any]


def block(address: int, size: int, state: str = "active_allocated", **more: Any) -> Values:
    return {"address": address, "size": size, "requested_size": size, "state": state, "frames": [], **more}


def segment(address: int, *blocks: Values, kind: str = "large", **more: Any) -> Values:
    total = sum(one["size"] for one in blocks)
    base = {"device": 0, "address": address, "total_size": total, "segment_type": kind, "stream": 0}
    return base | {"blocks": list(blocks), **more}


def event(action: str, address: int, size: int, time_us: int = 0, **more: Any) -> Values:
    return {
        "action": action,
        "addr": address,
        "size": size,
        "stream": 0,
        "time_us": time_us,
        "frames": [],
        **more,
    }


def read(segments: list[Values], *traces: list[Values], **more: Any) -> MemoryFile:
    return read_snapshot(pickle.dumps({"segments": segments, "device_traces": list(traces), **more}))


def codes(seen: MemoryFile) -> set[str]:
    return {remark.code for remark in seen.remarks}


def test_devices_are_told_apart() -> None:
    segments = [
        segment(0, block(0, 20 * MIB)),
        segment(0, block(0, 4 * MIB), block(4 * MIB, 16 * MIB, "inactive"), device=3),
    ]
    seen = read(segments, [event("segment_alloc", 0, 20 * MIB), event("alloc", 0, 20 * MIB)], [], [], [])
    assert [device.device for device in seen.devices] == [0, 3]
    first, last = seen.devices
    assert first.peak_allocated_bytes == 20 * MIB
    assert (last.peak_allocated_bytes, last.timeline, last.num_ooms) == (None, (), None)
    assert last.largest[0].bytes == 4 * MIB
    assert last.now.inactive_split_bytes == 16 * MIB
    assert [(remark.code, remark.device) for remark in seen.remarks] == [("history_off", 3)]


def test_an_empty_snapshot_is_one_idle_device() -> None:
    (device,) = read([], []).devices
    assert (device.device, device.now.allocated_bytes, device.now.reserved_bytes) == (0, 0, 0)


def test_a_block_that_another_stream_still_uses() -> None:
    waiting = block(0, 20 * MIB, "active_pending_free")
    trace = [
        event("segment_alloc", 0, 20 * MIB),
        event("alloc", 0, 20 * MIB),
        event("free_requested", 0, 20 * MIB),
    ]
    (device,) = read([segment(0, waiting)], trace).devices
    assert (device.now.allocated_bytes, device.now.active_bytes) == (0, 20 * MIB)
    assert device.peak_allocated_bytes == 20 * MIB
    last = device.timeline[-1]
    assert (last.allocated_bytes, last.active_bytes) == (0, 20 * MIB)


def test_a_block_that_waited_before_the_record_began() -> None:
    trace = [event("free_requested", 64 * MIB, 1), event("free_completed", 0, 20 * MIB)]
    (device,) = read([segment(0, block(0, 20 * MIB, "inactive"))], trace).devices
    first, *_, last = device.timeline
    assert (first.allocated_bytes, first.active_bytes) == (512, 20 * MIB + 512)
    assert (last.allocated_bytes, last.active_bytes) == (0, 512)


def test_private_pools_stand_alone() -> None:
    segments = [
        segment(0, block(0, 2 * MIB), kind="small", segment_pool_id=(0, 0)),
        segment(4 * MIB, block(4 * MIB, 20 * MIB, "inactive"), segment_pool_id=(0, 1)),
    ]
    (device,) = read(segments).devices
    assert [(pool.pool, pool.private_id, pool.segments) for pool in device.pools] == [
        ("small", None, 1),
        ("large", (0, 1), 1),
    ]
    assert device.pools[1].level.reserved_bytes == 20 * MIB
    assert device.pools[1].level.inactive_split_bytes == 0


def test_a_record_that_began_late_starts_from_what_was_there() -> None:
    """10 MiB stay from before, 4 MiB are freed, 2 MiB are made; the segment of 20 MiB was there."""
    segments = [
        segment(0, block(0, 10 * MIB), block(10 * MIB, 2 * MIB), block(12 * MIB, 8 * MIB, "inactive")),
    ]
    trace = [
        event("free_requested", 10 * MIB, 4 * MIB, 5),
        event("free_completed", 10 * MIB, 4 * MIB, 5),
        event("alloc", 10 * MIB, 2 * MIB, 9),
    ]
    seen = read(segments, trace)
    (device,) = seen.devices
    assert [point.allocated_bytes for point in device.timeline] == [14 * MIB, 10 * MIB, 10 * MIB, 12 * MIB]
    assert [point.event for point in device.timeline] == [-1, 0, 1, 2]
    assert [point.time_us for point in device.timeline] == [None, 5, 5, 9]
    assert {point.reserved_bytes for point in device.timeline} == {20 * MIB}
    assert (device.peak_allocated_bytes, device.peak_event) == (14 * MIB, -1)
    assert [note.event for note in device.largest] == [None, None]
    assert codes(seen) == {"history_wrapped", "sizes_estimated"}


def test_the_stack_of_a_free_is_not_the_owners() -> None:
    """It may be an optimizer's that lets go of a gradient."""
    frames = [{"filename": "/site-packages/torch/optim/adam.py", "name": "_init_group", "line": 1}]
    (device,) = read([], [event("free_requested", 0, 4 * MIB, frames=frames)]).devices
    assert device.categories() == {"unknown": 4 * MIB}
    assert device.largest[0].frame is None


def test_a_request_keeps_a_free_block_that_is_hardly_larger() -> None:
    """11 MiB of a segment of 12: what is left, a mebibyte, is not split off."""
    trace = [
        event("segment_alloc", 0, 12 * MIB),
        event("alloc", 0, 11 * MIB),
        event("free_requested", 0, 11 * MIB),
        event("free_completed", 0, 11 * MIB),
        event("segment_free", 0, 12 * MIB),
    ]
    (device,) = read([], trace).devices
    assert (device.peak_allocated_bytes, device.peak_reserved_bytes) == (12 * MIB, 12 * MIB)
    assert device.largest[0].requested_bytes == 11 * MIB


def test_events_that_fit_nothing_are_counted() -> None:
    trace = [
        event("alloc", 0, 20 * MIB),
        event("alloc", 0, 20 * MIB),
        event("free_requested", 0, 20 * MIB),
        event("free_completed", 0, 20 * MIB),
        event("free_completed", 0, 20 * MIB),
        event("a_later_action", 0, 0),
        event("snapshot", 0, 0),
    ]
    seen = read([], trace)
    assert [(remark.code, remark.count) for remark in seen.remarks] == [("events_skipped", 3)]
    assert seen.devices[0].peak_allocated_bytes == 20 * MIB


def test_a_record_that_does_not_end_where_the_snapshot_is() -> None:
    seen = read([], [event("segment_alloc", 0, 20 * MIB), event("alloc", 0, 20 * MIB)])
    assert [(remark.code, remark.bytes) for remark in seen.remarks][-1] == ("history_differs", 20 * MIB)


def test_the_format_of_pytorch_2_0() -> None:
    old = {
        "segments": [
            {
                "device": 0, "address": 0, "total_size": 20 * MIB, "allocated_size": 8 * MIB, "active_size": 8 * MIB,
                "stream": 0, "segment_type": "large",
                "blocks": [
                    {"size": 8 * MIB, "state": "active_allocated", "history": [
                        {"addr": 0, "real_size": 8 * MIB, "frames": [
                            {"filename": "/home/user/model.py", "name": "forward", "line": 3}]}]},
                    {"size": 12 * MIB, "state": "inactive"},
                ],
            }
        ],
        "device_traces": [[{"action": "segment_alloc", "addr": 0, "size": 20 * MIB, "stream": 0},
                           {"action": "alloc", "addr": 0, "size": 8 * MIB, "stream": 0}]],
    }  # fmt: skip
    (device,) = read_snapshot(pickle.dumps(old)).devices
    assert device.now.allocated_bytes == device.peak_allocated_bytes == 8 * MIB
    assert device.timeline[-1].time_us is None
    old["device_traces"] = []
    (device,) = read_snapshot(pickle.dumps(old)).devices
    assert device.largest[0].frame is not None
    assert device.largest[0].frame.filename == "/home/user/model.py"


def test_many_failed_requests_are_counted_and_the_first_shown() -> None:
    oom = {"action": "oom", "device_free": MIB, "size": 20 * MIB, "stream": 0, "frames": []}
    (device,) = read([], [oom] * 150).devices
    assert (device.num_ooms, len(device.ooms)) == (150, 100)
    assert (device.ooms[0].free_bytes, device.ooms[0].cause) == (MIB, "demand")


@pytest.mark.parametrize("events", [1, 599, 600, 5000])
def test_the_timeline_is_bounded_and_keeps_the_peak(events: int) -> None:
    trace = [event("alloc", n * MIB, MIB) for n in range(events)]
    trace += [
        event(action, n * MIB, MIB) for n in range(events) for action in ("free_requested", "free_completed")
    ]
    (device,) = read([], trace).devices
    assert len(device.timeline) <= 600
    assert (
        max(point.allocated_bytes for point in device.timeline) == device.peak_allocated_bytes == events * MIB
    )
