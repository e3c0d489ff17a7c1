"""Hostile and broken files: refused with a code, nothing in them run."""

import pickle
import pickletools
import struct
import tracemalloc
from collections import OrderedDict
from contextlib import suppress
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.units import MIB
from profiler.allocator.settings import AllocatorSettings
from profiler.snapshot import MemoryFileError, read_memory_file, read_snapshot
from profiler.snapshot.plain import MAX_FILE_BYTES, load_plain
from tests.profiler.snapshot.hostile import Payload, canary, nothing_runs, refused
from tests.profiler.snapshot.writer import LINEAR, random_events, record

GOOD = {p: record(random_events(1, 60), AllocatorSettings(), stacks={1: LINEAR}).data(p) for p in range(6)}


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


HOSTILE = {
    "reduce": pickle.dumps({"segments": [Payload(canary, 1)], "device_traces": []}),
    "global": b"cbuiltins\neval\n(S'1'\ntR.",
    "os.system": b"cos\nsystem\n(X\x02\x00\x00\x00idtR.",
    "stack global": b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.",
    "inst": b"(X\x01\x00\x00\x001ibuiltins\neval\n.",
    "obj": b"(cbuiltins\neval\nX\x01\x00\x00\x001o.",
    "newobj": b"\x80\x02cdatetime\ndate\nC\x04\x07\xe5\x01\x01\x85\x81.",
    "build": b"\x80\x02}}b.",
    "ext1": b"\x80\x02\x82\x01.",
    "ext2": b"\x80\x02\x83\x01\x00.",
    "ext4": b"\x80\x02\x84\x01\x00\x00\x00.",
    "persistent id": b"Pexec\n.",
    "binary persistent id": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "after good values": GOOD[4][:-1] + b"cos\nsystem\n(X\x02\x00\x00\x00idtR.",
    "a date": pickle.dumps({"segments": [date(2026, 1, 1)]}),
    "an ordered dict": pickle.dumps(OrderedDict(segments=[])),
    "bytes": pickle.dumps({"segments": [b"x"]}),
    "a set": pickle.dumps({"segments": [{1}]}),
    "a nested tuple": pickle.dumps({"segments": [((1, 2), (3, 4))]}),
    "a tuple of texts": pickle.dumps({"segments": [("a", "b")]}),
    "a complex number": pickle.dumps({"segments": [1j]}),
    "out of band": b"\x80\x05\x97.",
}


@pytest.mark.parametrize("name", ["reduce", "global", "inst"])
def test_the_watch_sees_what_runs(name: str) -> None:
    with pytest.raises(AssertionError), nothing_runs():
        pickle.loads(HOSTILE[name])  # noqa: S301 - what must not happen to a file of others


@pytest.mark.parametrize("name", HOSTILE)
def test_what_could_run_is_refused_by_name(name: str) -> None:
    problem = refused(HOSTILE[name])
    assert problem.code == "not_plain"
    assert problem.params["name"]


def test_the_second_wall_holds_without_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profiler.snapshot.plain._check_opcodes", lambda _: None)
    for name in ("reduce", "global", "os.system", "stack global", "inst", "obj", "persistent id"):
        assert refused(HOSTILE[name]).code == "not_plain"


@pytest.mark.parametrize("protocol", range(6))
def test_good_values_come_through_unchanged(protocol: int) -> None:
    values = record(random_events(1, 60), AllocatorSettings(), stacks={1: LINEAR}).values
    assert load_plain(GOOD[protocol]) == values


def as_cpp(value: Any, seen: dict[str, int]) -> bytes:
    """As `_memory_snapshot_pickled` writes it: protocol 2, only texts are kept in the memo, 64-bit whole numbers."""
    if isinstance(value, dict):
        inside = b"".join(as_cpp(part, seen) for item in value.items() for part in item)
        return b"}(" + inside + b"u" if value else b"}"
    if isinstance(value, list):
        return b"](" + b"".join(as_cpp(part, seen) for part in value) + b"e"
    if isinstance(value, tuple):
        return b"".join(as_cpp(part, seen) for part in value) + b"\x86"
    if isinstance(value, str):
        return _cpp_text(value, seen)
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    for opcode, form, low, high in (
        (b"K", "<B", 0, 255),
        (b"M", "<H", 0, 65535),
        (b"J", "<i", -(2**31), 2**31 - 1),
    ):
        if low <= value <= high:
            return opcode + struct.pack(form, value)
    return b"\x8a\x08" + struct.pack("<q", value)


def _cpp_text(value: str, seen: dict[str, int]) -> bytes:
    place = seen.get(value)
    if place is None:
        place = seen[value] = len(seen)
        put = b"q" + bytes([place]) if place < 256 else b"r" + struct.pack("<I", place)
        return text(value) + put
    return b"h" + bytes([place]) if place < 256 else b"j" + struct.pack("<I", place)


def test_the_form_that_cpp_writes() -> None:
    stacks = {key: [{"filename": f"f{key}.py", "name": f"g{key}", "line": key}] for key in range(300)}
    values = record(random_events(1, 300), AllocatorSettings(), stacks=stacks).values
    data = b"\x80\x02" + as_cpp(values, {}) + b"."
    assert pickle.loads(data) == values  # noqa: S301 - our own
    assert load_plain(data) == values
    assert read_snapshot(data) == read_snapshot(pickle.dumps(values))


@pytest.mark.parametrize("protocol", range(6))
def test_every_opcode_of_a_snapshot_is_let_through(protocol: int) -> None:
    """And all that the written form uses is in the list of what is let through."""
    names = {opcode.name for opcode, _, _ in pickletools.genops(GOOD[protocol])}
    assert not names & {"GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ"}
    read_snapshot(GOOD[protocol])


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_cut_off_anywhere(protocol: int) -> None:
    good = GOOD[protocol]
    for end in [*range(0, len(good), 1000), *range(1, 300), *range(len(good) - 300, len(good))]:
        assert refused(good[:end]).code in {"empty", "truncated", "not_plain", "not_pickle"}


def test_the_last_byte_missing_is_told_as_cut_off() -> None:
    assert refused(GOOD[4][:-1]).code == "truncated"
    assert refused(GOOD[4][: len(GOOD[4]) // 2]).code == "truncated"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "empty"),
        (b"\x1f\x8b\x08\x00" + bytes(50), "compressed"),
        (b"PK\x03\x04" + bytes(50), "compressed"),
        (b"<html>", "not_pickle"),
        (b"\x80\x06K\x01.", "not_plain"),
        (b"\x80\x04.", "not_pickle"),
        (b"\x80\x04K\x01s.", "not_pickle"),
        (b"\x80\x04]K\x01K\x01s.", "not_pickle"),
        (b"\x80\x04h\x05.", "not_pickle"),
        (b"\x80\x04e.", "not_pickle"),
        (pickle.dumps([1]), "not_snapshot"),
        (pickle.dumps(7), "not_snapshot"),
        (pickle.dumps(None), "not_snapshot"),
        (pickle.dumps("segments"), "not_snapshot"),
        (pickle.dumps({}), "not_snapshot"),
        (pickle.dumps({"segments": {}}), "not_snapshot"),
        (pickle.dumps({1: 2, 2.5: 3, None: 4}), "not_snapshot"),
    ],
)
def test_what_is_no_snapshot(data: bytes, code: str) -> None:
    assert refused(data).code == code


def test_a_file_that_is_too_large() -> None:
    problem = refused(bytes(MAX_FILE_BYTES + 1))
    assert (problem.code, problem.params["allowed_bytes"]) == ("too_large", MAX_FILE_BYTES)


def peak_bytes(data: bytes) -> tuple[MemoryFileError, int]:
    tracemalloc.start()
    try:
        return refused(data), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x80\x04]r\xff\xff\xff\x7f.", id="a memo number of two billion"),
        pytest.param(b"\x80\x04]r\x00\x00\x00\x01.", id="a memo number of sixteen million"),
        pytest.param(b"]p2000000000\n.", id="a memo number in text"),
        pytest.param(b"\x80\x04X\xff\xff\xff\x7fa.", id="a text of two gigabytes"),
        pytest.param(b"\x80\x04\x8d" + bytes([255] * 7) + b"\x00a.", id="a text of more than there is"),
        pytest.param(b"\x80\x05\x96" + bytes([0, 0, 0, 0, 1, 0, 0, 0]) + b"a.", id="a byte array"),
        pytest.param(b"\x80\x04\x8a\xff" + bytes([1] * 255) + b".", id="a whole number of 2040 bits"),
        pytest.param(b"\x80\x04\x8b\x00\x00\x10\x00" + bytes(MIB) + b".", id="a whole number of a mebibyte"),
        pytest.param(b"I" + b"9" * 100_000 + b"\n.", id="a whole number of 100 000 digits"),
        pytest.param(b"\x80\x04" + b"]" * (16 * MIB) + b".", id="sixteen million lists"),
        pytest.param(b"\x80\x04" + b"}" * (6 * MIB) + b".", id="six million dicts"),
        pytest.param(b"\x80\x04]" + b"\x94" * (2 * MIB) + b"\x86.", id="a memo of two million"),
    ],
)
def test_little_data_never_takes_much_memory(data: bytes) -> None:
    problem, peak = peak_bytes(data)
    assert problem.code in {"truncated", "too_complex", "not_plain", "not_pickle", "too_long_number"}
    assert peak < 3 * MIB + 2 * len(data)


def laughs(depth: int, opener: bytes, closer: bytes) -> bytes:
    """A list that holds the one before ten times, and so on."""
    data = b"\x80\x02(]q\x00"
    for level in range(depth):
        data += opener + bytes([ord("h"), level]) * 10 + closer + bytes([ord("q"), level + 1])
    return data


@pytest.mark.parametrize("where", ["segments", "blocks", "frames", "trace", "settings", "action", "size"])
def test_a_billion_laughs_are_not_followed(where: str) -> None:
    lol = laughs(30, b"](", b"e")
    value = b"h\x1e"
    put = {
        "segments": text("segments") + value,
        "blocks": text("segments") + b"](" + b"}(" + text("blocks") + value + b"ue",
        "trace": text("segments") + b"]" + text("device_traces") + b"](" + value + b"e",
        "settings": text("segments") + b"]" + text("allocator_settings") + b"}(" + text("max_split_size") + value
        + b"u",
        "frames": text("segments") + b"]" + text("device_traces") + b"](](}(" + text("action") + text("alloc")
        + text("addr") + b"K\x00" + text("size") + b"K\x01" + text("frames") + value + b"uee",
        "action": text("segments") + b"]" + text("device_traces") + b"](](}(" + text("action") + value + b"uee",
        "size": text("segments") + b"](}(" + text("blocks") + b"]" + text("total_size") + value + b"ue",
    }[where]  # fmt: skip
    data = lol + b"}(" + put + b"u."
    if where in {"frames", "settings"}:
        assert read_snapshot(data).devices
        return
    problem = refused(data)
    assert problem.code in {"bad_value", "missing", "not_snapshot"}
    assert len(str(problem)) < 500


def test_a_shared_segment_is_counted_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profiler.snapshot.document.MAX_RECORDS", 100_000)
    block = {"size": 1, "state": "inactive"}
    segment = {"address": 0, "total_size": 10**6, "segment_type": "large", "blocks": [block] * 200}
    assert refused(pickle.dumps({"segments": [segment] * 600})).code == "too_complex"
    entry = {"action": "alloc", "addr": 0, "size": 1}
    assert (
        refused(pickle.dumps({"segments": [], "device_traces": [[entry] * 30_000] * 5})).code == "too_complex"
    )


@pytest.mark.parametrize("kind", ["list", "dict", "tuple"])
def test_deep_nesting(kind: str) -> None:
    depth = 300_000
    data = {
        "list": b"\x80\x02" + b"](" * depth + b"e" * depth + b".",
        "dict": b"\x80\x02" + b"}(K\x01" * depth + b"K\x01" + b"u" * depth + b".",
        "tuple": b"\x80\x02K\x01" + b"\x85" * depth + b".",
    }[kind]
    assert refused(data).code in {"not_snapshot", "not_plain"}
    inside = b"\x80\x02}(" + text("segments") + data[2:-1] + b"u."
    assert refused(inside).code in {"bad_value", "not_snapshot", "not_plain", "missing"}


def test_a_list_that_holds_itself() -> None:
    values: dict[str, Any] = {"device_traces": []}
    values["segments"] = [values]
    assert refused(pickle.dumps(values)).code == "missing"
    own: list[Any] = []
    own.append(own)
    assert refused(pickle.dumps({"segments": own})).code == "bad_value"


def test_keys_that_collide_can_not_be_made() -> None:
    """Python hashes whole numbers by their rest: only longer ones than 64 bits collide by the thousand."""
    many = {n * (2**61 - 1): 0 for n in range(2, 2000)}
    assert refused(pickle.dumps(many)).code == "too_long_number"
    pairs = {(n, n << 40): 0 for n in range(1, 2000)}
    assert refused(pickle.dumps(pairs)).code == "not_plain"


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_any_bytes(data: bytes) -> None:
    refused(data)
    with nothing_runs(), pytest.raises(MemoryFileError):
        read_memory_file(data)


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_changed_bytes_raise_nothing_else_and_run_nothing(data: st.DataObject) -> None:
    raw = bytearray(GOOD[data.draw(st.sampled_from([0, 2, 4]))])
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with nothing_runs(), suppress(MemoryFileError):
        read_snapshot(bytes(raw))


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["segments", "blocks", "device_traces", "action", "addr", "size", "state", "total_size", "address", "frames",
         "segment_type", "allocator_settings", "requested_size"]), inner, max_size=6),
    max_leaves=20,
)  # fmt: skip


@given(_PLAIN, st.lists(_PLAIN, max_size=3), st.lists(st.lists(_PLAIN, max_size=3), max_size=2))
@settings(max_examples=100, deadline=None)
def test_any_values(top: Any, segments: Any, traces: Any) -> None:
    for made in (top, {"segments": segments, "device_traces": traces}):
        with nothing_runs(), suppress(MemoryFileError):
            read_snapshot(pickle.dumps(made))
