"""How long things take: `python -m benchmarks.speed`. Medians; a shared machine makes single runs jump."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from hardware_db import load_tables
from planner.estimate import plan
from planner.validation import parse_scenario

ROOT: Final = Path(__file__).parent.parent
EXAMPLES: Final = ROOT / "examples"
COLD_RUNS: Final = 5
WARM_RUNS: Final = 50
MICRO: Final = 1e6


def seconds(action: Callable[[], object], runs: int) -> float:
    """Median wall time of an action."""
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return median(times)


def cold(*arguments: str) -> float:
    """Median wall time of a fresh interpreter with these arguments."""
    command = [sys.executable, *arguments]
    return seconds(lambda: subprocess.run(command, cwd=ROOT, check=True, capture_output=True), COLD_RUNS)


def main() -> None:
    """Print every figure."""
    start = time.perf_counter()
    tables = load_tables()
    print(f"load tables: {(time.perf_counter() - start) * 1000:.0f} ms")
    for path in sorted(EXAMPLES.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        scenario, issues = parse_scenario(document)
        if scenario is None:
            raise SystemExit(f"{path.name}: {issues}")
        plan(scenario, tables)
        reading = seconds(partial(parse_scenario, document), WARM_RUNS)
        planning = seconds(partial(plan, scenario, tables), WARM_RUNS)
        print(f"{path.stem}: read {reading * MICRO:.0f} us, plan {planning * MICRO:.0f} us")
    nothing = cold("-c", "pass")
    for path in sorted(EXAMPLES.glob("*.json")):
        whole = cold("-m", "planner", "plan", str(path))
        print(f"cold plan {path.stem}: {whole:.3f} s; `python -c pass`: {nothing:.3f} s")


if __name__ == "__main__":
    main()
