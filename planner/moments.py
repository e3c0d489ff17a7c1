"""Moments within a phase: a phase is as full as its fullest moment, and which that is depends on the sizes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from planner.ledger import Entry

_keeps_all: ContextVar[bool] = ContextVar("keeps_all_moments", default=False)


@contextmanager
def all_moments() -> Iterator[None]:
    """Within it, ledgers hold the entries of every moment, each with its number in `Entry.moment`."""
    token = _keeps_all.set(True)
    try:
        yield
    finally:
        _keeps_all.reset(token)


def fullest(moments: Iterable[list[Entry]]) -> list[Entry]:
    """The moment with most bytes; within `all_moments` every moment, marked."""
    if _keeps_all.get():
        return [
            entry._replace(moment=(number, *entry.moment))
            for number, entries in enumerate(moments)
            for entry in entries
        ]
    return max(moments, key=size_of)


def size_of(entries: Iterable[Entry]) -> int:
    """Bytes of some entries together."""
    return sum([entry.bytes for entry in entries])
