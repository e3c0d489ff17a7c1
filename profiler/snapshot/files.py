"""A file of either kind."""

from typing import Final

from profiler.snapshot.errors import MemoryFileError
from profiler.snapshot.plain import MAX_TEXT_BYTES
from profiler.snapshot.read import read_snapshot
from profiler.snapshot.texts import read_memory_text
from profiler.snapshot.view import MemoryFile

_PICKLE: Final = b"\x80"
"""How every pickle from protocol 2 on begins; no UTF-8 text does."""


def read_memory_file(data: bytes) -> MemoryFile:
    """Read a snapshot, or a text with `memory_stats` or `memory_summary` in it.

    Raises:
        MemoryFileError: It is neither, or is refused.
    """
    text = _text(data)
    if text is None:
        return read_snapshot(data)
    try:
        return read_memory_text(text)
    except MemoryFileError as problem:
        if problem.code != "not_memory_text":
            raise
        return _old_pickle(data, problem)


def _text(data: bytes) -> str | None:
    if data.startswith(_PICKLE) or len(data) > 4 * MAX_TEXT_BYTES:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _old_pickle(data: bytes, as_text: MemoryFileError) -> MemoryFile:
    """Pickles of protocols 0 and 1 can be text; what is no pickle either is told as a text."""
    try:
        return read_snapshot(data)
    except MemoryFileError as problem:
        raise as_text if problem.code in {"not_pickle", "not_plain", "truncated"} else problem from None
