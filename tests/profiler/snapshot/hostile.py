"""Files that must be refused, and what would show that something in them ran."""

from collections.abc import Callable
from typing import Any

import pytest

from profiler.snapshot import MemoryFileError, read_snapshot

RUN: list[str] = []


def canary(*values: Any) -> None:
    """Must never be called."""
    RUN.append(repr(values))


class Payload:
    """Calls something when it is unpickled."""

    def __init__(self, call: Callable[..., Any], *values: Any) -> None:
        self._reduced = call, values

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._reduced


def refused(data: bytes) -> MemoryFileError:
    with pytest.raises(MemoryFileError) as caught:
        read_snapshot(data)
    assert not RUN
    return caught.value
