"""Child processes with PyTorch: cases that come back as lines of JSON, and `trace` on the command line."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def run_cases(module: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What `python -m tests.profiler.trace.MODULE NAMES` found, by case."""
    done = _python(f"tests.profiler.trace.{module}", names)
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
    return {line["case"]: line for line in lines}


def trace_command(
    *words: str, folder: Path = ROOT, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`python -m profiler trace WORDS`, run in a folder."""
    return _python("profiler", ["trace", *words], folder, environment)


def _python(
    module: str, words: Sequence[str], folder: Path = ROOT, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env=environment,
    )
