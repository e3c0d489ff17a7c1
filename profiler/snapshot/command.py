"""`python -m profiler snapshot FILE`: what a memory file says, as text or JSON."""

import json
import sys
from pathlib import Path

from planner.__main__ import STDIN
from planner.cli.problems import InputError
from profiler.snapshot.errors import MemoryFileError
from profiler.snapshot.files import read_memory_file
from profiler.snapshot.plain import MAX_FILE_BYTES
from profiler.snapshot.text import as_json, error_line, lines


def report(name: str, *, json_wanted: bool) -> str:
    """The report of a file.

    Args:
        name: Path, or `-` for the standard input.
        json_wanted: As JSON.

    Raises:
        InputError: It can't be read, or is no memory file.
    """
    try:
        seen = read_memory_file(_read(name))
    except MemoryFileError as problem:
        raise InputError(f"{name}: {error_line(problem)}") from problem
    return json.dumps(as_json(seen)) if json_wanted else "\n".join(lines(seen))


def _read(name: str) -> bytes:
    """The bytes of a file, one more than is allowed at most."""
    try:
        if name == STDIN:
            return sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as problem:
        raise InputError(f"{name}: can't be read: {problem.strerror or problem}") from problem
