"""Reading a memory file in a child: the same answer as here, its refusals, and children that misbehave."""

import os
import pickle
import sys

import pytest

from profiler.allocator.settings import AllocatorSettings
from profiler.snapshot import MemoryFileError, read_memory_file
from profiler.snapshot.apart import CHILD, read_apart
from profiler.snapshot.plain import MAX_FILE_BYTES
from tests.profiler.snapshot.writer import LINEAR, STATES, record

MIB = 1 << 20


def snapshot() -> bytes:
    events = [(0, 30 * MIB), (1, 8 * MIB), (2, 40 * MIB), (2, -1), (3, 900 * MIB)]
    return record(events, AllocatorSettings(), 200 * MIB, stacks={0: LINEAR, 1: STATES}).data()


def refused(data: bytes, *command: str, timeout_s: float = 60) -> MemoryFileError:
    started = (sys.executable, *command) if command else CHILD
    with pytest.raises(MemoryFileError) as caught:
        read_apart(data, started, timeout_s)
    return caught.value


def test_a_child_reads_what_would_be_read_here() -> None:
    data = snapshot()
    seen = read_apart(data)
    assert seen == read_memory_file(data)
    assert seen.devices[0].ooms
    assert seen.devices[0].timeline


class Harmful:
    """Runs a command when it is unpickled without care."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("exit 1",)


def test_a_hostile_file_is_refused_as_it_would_be_here() -> None:
    data = pickle.dumps({"segments": [], "device_traces": [Harmful()]})
    problem = refused(data)
    assert problem.code == "not_plain"
    with pytest.raises(MemoryFileError) as here:
        read_memory_file(data)
    assert (problem.field, problem.params) == (here.value.field, here.value.params)


def test_a_file_that_is_too_large_starts_no_child() -> None:
    problem = refused(b"\x80" * (MAX_FILE_BYTES + 1), "-c", "raise SystemExit(9)")
    assert problem.code == "too_large"


def test_a_child_that_takes_too_long_is_ended() -> None:
    problem = refused(b"x", "-c", "import time; time.sleep(600)", timeout_s=0.5)
    assert (problem.code, problem.params) == ("took_too_long", {"seconds": 0})


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("import sys; sys.exit('out of patience')", "out of patience"),
        ("raise SystemExit(7)", "exit code 7"),
        ("print('no JSON')", "Expecting value"),
        ("print('{}')", "file"),
        ('print(\'{"file": {"source": "magic"}}\')', "MemoryFile"),
    ],
)
def test_a_child_that_says_nothing_useful(code: str, detail: str) -> None:
    problem = refused(b"x", "-c", code)
    assert problem.code == "not_read"
    assert detail in str(problem.params["detail"])


def test_a_child_that_cannot_be_started() -> None:
    with pytest.raises(MemoryFileError, match="not_read"):
        read_apart(b"x", ("/nowhere/at/all",))
