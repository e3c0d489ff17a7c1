"""Cases that run in one process with PyTorch and come back as lines of JSON."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def run_cases(module: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What `python -m tests.profiler.trace.MODULE NAMES` found, by case."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.profiler.trace.{module}", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
    return {line["case"]: line for line in lines}
