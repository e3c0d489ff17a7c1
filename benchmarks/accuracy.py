"""The score over every published memory measurement: `python -m benchmarks.accuracy [--json]`."""

import argparse
import json

from benchmarks.records import MEMORY_FILES, load
from hardware_db import load_tables
from planner.accuracy.predict import predictor
from planner.accuracy.score import as_json, score
from planner.cli.score import score_lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--json", action="store_true", help="every row, what has no answer, and the summary")
    options = parser.parse_args()
    result = score(load(MEMORY_FILES), predictor(load_tables()))
    if options.json:
        print(json.dumps(as_json(result), indent=1, ensure_ascii=False))
        return
    for line in score_lines(result):
        print(line)


if __name__ == "__main__":
    main()
