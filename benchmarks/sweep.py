"""Plans per second of a million-plan sweep, and a 64 x 64 fit map: `python -m benchmarks.sweep [--peers PYTHON]`.

Every plan of the sweep has its peak, verdict, phase and component totals. CPU seconds of one core; `--peers` names an
interpreter that has the two planners of `benchmarks/peer_speed.py`, which then run on the same machine after it.
"""

import argparse
import json
import subprocess
import time
from pathlib import Path
from typing import Any, Final

from hardware_db import load_tables
from planner.estimate import plan
from planner.hardware import Tables
from planner.scenario import Scenario
from planner.sweep import sweep
from planner.validation import parse_scenario

ROOT: Final = Path(__file__).parent.parent
MILLION: Final = (range(1, 1001), range(8, 8001, 8))
MAP: Final = (range(1, 65), range(128, 8193, 128))
RUNS: Final = 5
SINGLE: Final = 50


def scenarios() -> list[tuple[str, Scenario]]:
    """The training examples."""
    found = []
    for path in sorted((ROOT / "examples").glob("*.json")):
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        scenario, issues = parse_scenario(document)
        if scenario is None:
            raise SystemExit(f"{path.name}: {issues}")
        if scenario.is_training:
            found.append((path.stem, scenario))
    return found


def seconds(scenario: Scenario, tables: Tables, sizes: tuple[range, range], runs: int) -> float:
    """The least CPU time of a sweep over micro-batch and sequence length."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        sweep(scenario, tables, ("micro_batch", sizes[0]), ("sequence_length", sizes[1]))
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """Print a line for each example, then the peers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--peers", help="an interpreter with llm-analysis and llm-mem-planner")
    peers = parser.parse_args().peers
    tables, points = load_tables(), len(MILLION[0]) * len(MILLION[1])
    for name, scenario in scenarios():
        plan(scenario, tables)
        million, fit_map = seconds(scenario, tables, MILLION, 2), seconds(scenario, tables, MAP, RUNS)
        start = time.process_time()
        for _ in range(SINGLE):
            plan(scenario, tables)
        single = (time.process_time() - start) / SINGLE
        print(
            f"{name}: {points / million / 1e6:.2f} M plans/s, 64 x 64 map {fit_map * 1e3:.1f} ms; "
            f"one by one {1 / single:.0f} plans/s"
        )
    if peers:
        command = [peers, str(ROOT / "benchmarks" / "peer_speed.py")]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for name, rate in json.loads(output.splitlines()[-1]).items():
            print(f"{name}: {rate:.0f} estimates/s")


if __name__ == "__main__":
    main()
