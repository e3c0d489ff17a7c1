"""The record: columns, and that a document that is none is refused."""

import json
from typing import Any

import pytest

from profiler.allocator.replay import FREE
from profiler.trace.record import Change, TraceError, columns_from, trace_from
from tests.profiler.trace.traces import born, small_step, storage


def plain() -> dict[str, Any]:
    document: dict[str, Any] = small_step().model_dump(mode="json")
    return document


def test_a_trace_comes_back_as_it_was() -> None:
    assert trace_from(json.loads(json.dumps(plain()))) == small_step()


def test_storages_come_back_as_they_were() -> None:
    made = storage(2, "forward", kind="optimizer_state", detail="exp_avg", module="a.b", shape=(3, 4))
    made.born_in_step = 1
    (again,) = columns_from([born(made, "forward", 1)]).storages.storages()
    for name in ("bytes", "phase", "module", "op", "shape", "dtype", "kind", "detail", "died_in"):
        assert getattr(again, name) == getattr(made, name)


def test_a_storage_that_grows_is_born_anew() -> None:
    one = storage(0, "forward")
    columns = columns_from(
        [Change(one, 100, "forward", 1), Change(one, 50, "forward", 1), Change(one, -150, "forward", 1)]
    )
    assert columns.storages.bytes == (100, 150)
    assert columns.events == (0, -1, 1, -2)


def test_events_are_requests() -> None:
    requests = list(small_step().requests())
    assert len(requests) == len(small_step().events)
    assert sum(size != FREE for _, size in requests) == len(small_step().storages.bytes)
    live: set[int] = set()
    for name, size in requests:
        if size == FREE:
            live.remove(name)
        else:
            live.add(name)
    assert len(live) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "headroom_measurement"},
        {"version": 2},
        {"events": [0, 99]},
        {"events": [-99]},
        {"steps": 0},
        {"build_s": -1.0},
        {"unknown": 1},
    ],
)
def test_what_is_no_trace_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TraceError):
        trace_from(plain() | changes)


@pytest.mark.parametrize("document", [None, [], "x", {}])
def test_anything_else_is_refused(document: object) -> None:
    with pytest.raises(TraceError):
        trace_from(document)
