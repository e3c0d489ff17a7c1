"""Reads a memory file in a process of its own, so that a page stays usable whatever the file is."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from pydantic import TypeAdapter, ValidationError

from profiler.runner import ROOT
from profiler.snapshot.errors import MemoryFileError
from profiler.snapshot.plain import MAX_FILE_BYTES
from profiler.snapshot.view import MemoryFile

CHILD: Final = (sys.executable, "-m", "profiler.snapshot.child")
TIMEOUT_S: Final = 120.0
MAX_DETAIL: Final = 300


def read_apart(data: bytes, command: Sequence[str] = CHILD, timeout_s: float = TIMEOUT_S) -> MemoryFile:
    """Read a snapshot, `memory_stats` or `memory_summary` in a child, which is gone when this returns.

    Args:
        data: The file.
        command: What to start.
        timeout_s: Seconds after which the child is ended.

    Raises:
        MemoryFileError: As `read_memory_file`; also `took_too_long`, and `not_read` where the child crashed or
            could not be started.
    """
    if len(data) > MAX_FILE_BYTES:
        raise MemoryFileError("too_large", bytes=len(data), allowed_bytes=MAX_FILE_BYTES)
    environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            list(command),
            input=data,
            capture_output=True,
            timeout=timeout_s,
            cwd=ROOT,
            env=environment,
            check=False,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except subprocess.TimeoutExpired:
        raise MemoryFileError("took_too_long", seconds=round(timeout_s)) from None
    except OSError as problem:
        raise MemoryFileError("not_read", detail=str(problem)[:MAX_DETAIL]) from problem
    if done.returncode:
        raise MemoryFileError("not_read", detail=_last_words(done.stderr) or f"exit code {done.returncode}")
    return _answer(done.stdout)


def _answer(said: bytes) -> MemoryFile:
    try:
        document = json.loads(said)
        if "error" in document:
            error = document["error"]
            raise MemoryFileError(error["code"], error["field"], **error["params"])
        return TypeAdapter(MemoryFile).validate_json(json.dumps(document["file"]))
    except (ValidationError, KeyError, TypeError, json.JSONDecodeError) as problem:
        raise MemoryFileError("not_read", detail=str(problem)[:MAX_DETAIL]) from problem


def _last_words(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:MAX_DETAIL] if lines else ""
