"""Traces beside PyTorch's own MemTracker: `python -m benchmarks.trace_speed [MODEL ...]`.

The same steps of the same model on shape-only tensors, each tool in a fresh process; loading PyTorch is not
counted. CPU seconds tell what it costs, wall seconds what it took beside everything else on the machine. Peaks are
live tensors, which a tracker can see: they have to agree to the byte, or the command fails.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hardware_db import load_tables
from planner.estimate import plan
from planner.scenario import Scenario
from planner.units import GIB
from profiler.trace.request import ask

ROOT: Final = Path(__file__).parent.parent
CAPABILITY: Final = (9, 0)
LIMITS_S: Final = {
    "openai-community/gpt2": None,
    "meta-llama/Llama-3.1-8B": 3.0,
    "meta-llama/Llama-3.1-70B": 8.0,
    "Qwen/Qwen3-30B-A3B": 12.0,
}
"""Models, and CPU seconds that a full trace should stay under."""

LIMIT_RESIDENT_BYTES: Final = GIB * 6 // 10
TOOLS: Final = ("full", "instant", "mem_tracker")
POSITIONS: Final = {"openai-community/gpt2": 1024}
LENGTH: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One tool on one model.

    Attributes:
        peak_bytes: Highest live bytes of tensors.
        wall_s: Seconds on the clock.
        cpu_s: Seconds of the processor.
        resident_bytes: Host memory of the process at its peak, None if not known.
    """

    peak_bytes: int
    wall_s: float
    cpu_s: float
    resident_bytes: int | None


def question(model: str) -> dict[str, Any]:
    """A bf16 step with foreach AdamW as the Trainer makes it, one row of 4096 tokens."""
    document = {
        "version": 1,
        "task": "full",
        "model": {"id": model},
        "hardware": {"devices": [{"gpu": "unknown"}]},
        "runtime": {"name": "hf_trainer"},
        "training": {
            "micro_batch": 1,
            "sequence_length": POSITIONS.get(model, LENGTH),
            "attention": "sdpa",
            "checkpointing": "none",
            "dropout": 0.0,
            "precision": {"parameters": "bf16", "compute": "bf16", "autocast": False},
            "optimizer": {"name": "adamw", "implementation": "foreach"},
        },
    }
    asked = ask(plan(Scenario.model_validate(document), load_tables()), CAPABILITY)
    if asked.refused:
        raise SystemExit(f"{model}: {asked.refused}")
    target = asked.options.target.model_dump(mode="json")
    return {"scenario": asked.scenario, "config": asked.config, "target": target}


def run(tool: str, asked: dict[str, Any]) -> Run:
    """Start a fresh process and wait for its figures."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.trace_speed_child", tool],
        cwd=ROOT,
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{tool}: {done.stderr[-2000:]}")
    return Run(**json.loads(done.stdout.splitlines()[-1]))


def remarks(tool: str, seen: Run, first: Run, limit_s: float | None) -> list[str]:
    """What is not as it should be."""
    found = []
    if seen.peak_bytes != first.peak_bytes:
        found.append(f"peak differs by {seen.peak_bytes - first.peak_bytes} bytes")
    if tool != "mem_tracker" and (seen.resident_bytes or 0) > LIMIT_RESIDENT_BYTES:
        found.append("more than 0.6 GiB resident")
    if tool == "full" and limit_s is not None and seen.cpu_s > limit_s:
        found.append(f"more than {limit_s:g} CPU seconds")
    return found


def main() -> int:
    """Print every figure. Returns 1 where peaks differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace_speed", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=list(LIMITS_S), help="model ids")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS, help="default: all")
    arguments = parser.parse_args()
    differ = False
    print(f"{'model':28}{'tool':14}{'CPU s':>8}{'wall s':>8}{'GiB resident':>14}{'peak bytes':>18}")
    for model in arguments.models:
        asked = question(model)
        first: Run | None = None
        for tool in arguments.tools:
            seen = run(tool, asked)
            first = first or seen
            found = remarks(tool, seen, first, LIMITS_S.get(model))
            differ = differ or seen.peak_bytes != first.peak_bytes
            resident = "" if seen.resident_bytes is None else f"{seen.resident_bytes / GIB:.2f}"
            print(
                f"{model:28}{tool:14}{seen.cpu_s:8.2f}{seen.wall_s:8.2f}{resident:>14}{seen.peak_bytes:18d}"
                f"  {'; '.join(found)}",
                flush=True,
            )
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
