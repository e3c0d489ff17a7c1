"""The protocol: events survive the pipe, anything else is no event."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.documents import Remark
from profiler.events import (
    Event,
    Failed,
    Heartbeat,
    PhasePeak,
    Progress,
    Refused,
    Request,
    RequestError,
    Result,
    Sample,
    Started,
    encode,
    encode_request,
    parse_line,
    parse_request,
)

EVENTS = (
    Started(pid=7, torch="2.13", device="cpu", device_name="x"),
    Progress(step=1, steps=3, phase="loss", fraction=0.25, code="measuring", params={"n": 1}),
    Sample(at_s=1.5, resident_bytes=10),
    PhasePeak(step=1, phase="backward", peak_allocated_bytes=5, time_s=0),
    Result(report={"kind": "x"}),
    Refused(remarks=(Remark(code="c", field="f", params={"given": None}),)),
    Failed(reason="exception", detail="Zwölf €"),
    Heartbeat(at_s=2),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.event)
def test_an_event_survives_the_pipe(event: Event) -> None:
    line = encode(event)
    assert "\n" not in line
    assert parse_line(line.encode() + b"\r\n") == event


def test_unknown_stays_unknown() -> None:
    parsed = parse_line(encode(Sample(at_s=0)).encode())
    assert isinstance(parsed, Sample)
    assert parsed.device_used_bytes is None


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": 2},
        {"event": "unheard"},
        {"at_s": "1"},
        {"at_s": -1},
        {"at_s": float("inf")},
        {"resident_bytes": -1},
        {"resident_bytes": 1.5},
        {"phase": "lunch"},
        {"extra": 1},
    ],
)
def test_parsing_is_strict(change: dict[str, object]) -> None:
    good = json.loads(encode(Sample(at_s=1)))
    assert parse_line(json.dumps(good).encode()) is not None
    assert parse_line(json.dumps(good | change).encode()) is None


@given(st.binary(max_size=200))
def test_bytes_are_no_event(line: bytes) -> None:
    assert parse_line(line) is None


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda x: st.dictionaries(st.text(), x), max_leaves=5)
)
def test_other_json_is_no_event(value: object) -> None:
    assert parse_line(json.dumps(value).encode()) is None


def test_the_request_survives_the_pipe() -> None:
    request = Request(scenario={"a": [1, None, "ü"]}, config={"b": 1.5}, options={}, predicted_bytes=7)
    line = encode_request(request)
    assert line.count(b"\n") == 1
    assert parse_request(line) == request


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"protocol": 1}', b"[" * 100_000, b"\xff\xfe"])
def test_a_bad_request_says_so(line: bytes) -> None:
    with pytest.raises(RequestError):
        parse_request(line)
