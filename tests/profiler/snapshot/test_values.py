"""Plain values that are no snapshot: refused at their field; what only describes may be odd."""

import pickle
from typing import Any

import pytest

from planner.units import MIB
from profiler.snapshot import read_snapshot
from tests.profiler.snapshot.hostile import refused


def values(**changes: Any) -> dict[str, Any]:
    block = {"address": 0, "size": 512, "requested_size": 500, "state": "active_allocated", "frames": []}
    segment = {
        "device": 0,
        "address": 0,
        "total_size": 2 * MIB,
        "segment_type": "small",
        "stream": 0,
        "blocks": [block],
    }
    entry = {"action": "alloc", "addr": 0, "size": 500, "stream": 0, "time_us": 1, "frames": []}
    made = {"segments": [segment], "device_traces": [[entry]]}
    for path, value in changes.items():
        *way, last = path.split("__")
        place: Any = made
        for step in way:
            place = place[int(step) if step.isdigit() else step]
        key: Any = int(last) if last.isdigit() else last
        if value is ...:
            del place[key]
        else:
            place[key] = value
    return made


@pytest.mark.parametrize(
    "path", ["total_size", "address", "segment_type", "blocks", "blocks__0__size", "blocks__0__state"]
)
def test_missing_keys_are_named(path: str) -> None:
    problem = refused(pickle.dumps(values(**{f"segments__0__{path}": ...})))
    assert problem.code == "missing"
    assert problem.field == "segments[0]." + path.replace("__0__", "[0].")


@pytest.mark.parametrize("key", ["action", "addr", "size"])
def test_missing_keys_of_the_history_are_named(key: str) -> None:
    problem = refused(pickle.dumps(values(**{f"device_traces__0__0__{key}": ...})))
    assert (problem.code, problem.field) == ("missing", f"device_traces[0][0].{key}")


@pytest.mark.parametrize("bad", [-1, 2**62 + 1, 1.5, "1", None, [], {}, True, float("nan")])
@pytest.mark.parametrize(
    "path", ["segments__0__total_size", "segments__0__blocks__0__size", "device_traces__0__0__size"]
)
def test_sizes_that_cannot_be(path: str, bad: Any) -> None:
    assert refused(pickle.dumps(values(**{path: bad}))).code in {"bad_value", "missing"}


@pytest.mark.parametrize(
    ("path", "bad"),
    [
        ("segments__0", 7),
        ("segments__0__device", -1),
        ("segments__0__device", 512),
        ("segments__0__segment_type", "medium"),
        ("segments__0__segment_type", ["large"]),
        ("segments__0__blocks", {}),
        ("segments__0__blocks__0", "x"),
        ("segments__0__blocks__0__state", 1),
        ("segments__0__blocks__0__size", 3 * MIB),
        ("device_traces", {}),
        ("device_traces", [[]] * 513),
        ("device_traces__0", {}),
        ("device_traces__0__0", []),
        ("device_traces__0__0__action", 3),
        ("device_traces__0__0__addr", -5),
    ],
)
def test_values_that_cannot_be(path: str, bad: Any) -> None:
    problem = refused(pickle.dumps(values(**{path: bad})))
    assert problem.code in {"bad_value", "not_snapshot"}
    assert problem.field


@pytest.mark.parametrize(
    ("path", "odd"),
    [
        ("device_traces__0__0__action", "a_later_action"),
        (
            "device_traces__0__0__frames",
            [1, None, {"filename": 1}, {"filename": "a.py", "name": "f", "line": "x"}],
        ),
        ("device_traces__0__0__time_us", "now"),
        ("device_traces__0__0__stream", 2**64),
        ("segments__0__segment_pool_id", [0, 1]),
        ("segments__0__blocks__0__frames", None),
        ("allocator_settings", {"max_split_size": "x", "roundup_power2_divisions": {"1": 3}}),
        ("allocator_settings", 5),
        ("device_traces", []),
    ],
)
def test_what_only_describes_may_be_odd(path: str, odd: Any) -> None:
    assert read_snapshot(pickle.dumps(values(**{path: odd}))).devices[0].now.allocated_bytes == 512
