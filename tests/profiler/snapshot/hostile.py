"""Files that must be refused, and what would show that something in them ran."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def nothing_runs() -> Iterator[None]:
    """Watches what a hostile file is likely to call; only while it is read, for others need `eval` too."""
    RUN.clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "system", canary)
        patched.setattr("builtins.eval", canary)
        yield
    assert not RUN


def refused(data: bytes) -> MemoryFileError:
    with nothing_runs(), pytest.raises(MemoryFileError) as caught:
        read_snapshot(data)
    return caught.value
