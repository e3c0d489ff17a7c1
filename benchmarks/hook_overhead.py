"""What watching a training program costs: `python -m benchmarks.hook_overhead [--steps N] [--rounds R] [--json OUT]`.

One child process trains a small transformer on CPU in turns: some steps bare, some inside `watch_training`, in
alternating order, so that whatever else the machine does meets both alike. Printed: median step time of both and the
time that a tenth of them stays below (what a busy machine leaves comparable), their ratios, and the share that the
hook states of itself.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
CHILD: Final = "benchmarks.hook_overhead_child"


def main(arguments: list[str] | None = None) -> int:
    """Run the child, print its figures. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20, help="steps of a turn")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each kind")
    parser.add_argument("--json", type=Path, metavar="OUT")
    given = parser.parse_args(arguments)
    began_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", CHILD, str(given.steps), str(given.rounds)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr)
        return 1
    figures = summary(json.loads(done.stdout.splitlines()[-1]))
    figures["wall_s"] = round(time.monotonic() - began_s, 1)
    print(json.dumps(figures, indent=1))
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


def summary(measured: dict[str, Any]) -> dict[str, Any]:
    """Medians of both kinds of steps, their ratio less one, and what the hook says of itself."""
    bare, watched = statistics.median(measured["bare"]), statistics.median(measured["watched"])
    return {
        "torch": measured["torch"],
        "params": measured["params"],
        "steps_of_each": len(measured["bare"]),
        "bare_step_s": round(bare, 6),
        "watched_step_s": round(watched, 6),
        "overhead_frac": round(watched / bare - 1, 5),
        "bare_tenth_s": round(tenth(measured["bare"]), 6),
        "watched_tenth_s": round(tenth(measured["watched"]), 6),
        "tenth_overhead_frac": round(tenth(measured["watched"]) / tenth(measured["bare"]) - 1, 5),
        "stated_frac": round(measured["hook_s"] / measured["steps_s"], 5),
    }


def tenth(times_s: list[float]) -> float:
    """The time that a tenth of the steps stays below."""
    return statistics.quantiles(times_s, n=10)[0]


if __name__ == "__main__":
    sys.exit(main())
