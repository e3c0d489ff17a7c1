"""The child that reads one memory file: `python -m profiler.snapshot.child`, its bytes in, one JSON object out.

A file from anywhere can take seconds and a gigabyte to read. Here that is the child's own time and memory.
"""

import contextlib
import gc
import json
import sys
from typing import Final

from pydantic import TypeAdapter

from planner.units import GIB
from profiler.snapshot.errors import MemoryFileError
from profiler.snapshot.files import read_memory_file
from profiler.snapshot.plain import MAX_FILE_BYTES
from profiler.snapshot.view import MemoryFile

MAX_ADDRESS_SPACE_BYTES: Final = 4 * GIB
ADAPTER: Final = TypeAdapter(MemoryFile)


def main() -> int:
    """Read the standard input. Returns the exit code: 0 for a file or a refusal, both told as JSON."""
    _limit_memory()
    gc.disable()  # a million small dicts, none of them garbage before the end
    try:
        seen = read_memory_file(sys.stdin.buffer.read(MAX_FILE_BYTES + 1))
    except MemoryFileError as problem:
        answer = json.dumps({"code": problem.code, "field": problem.field, "params": dict(problem.params)})
        sys.stdout.buffer.write(b'{"error":' + answer.encode() + b"}")
        return 0
    sys.stdout.buffer.write(b'{"file":' + ADAPTER.dump_json(seen) + b"}")
    return 0


def _limit_memory() -> None:
    """Where the system offers it; the reader has its own bounds everywhere."""
    with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):
        import resource  # noqa: PLC0415  # POSIX only

        resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_SPACE_BYTES, MAX_ADDRESS_SPACE_BYTES))


if __name__ == "__main__":
    sys.exit(main())
