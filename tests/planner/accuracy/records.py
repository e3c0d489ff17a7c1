"""Measurement records for tests: the shipped files, and one made up that tests change."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from planner.accuracy.truth import Record, read_records

TRUTH = Path(__file__).parents[2] / "data" / "truth"
FILES = ("training.jsonl", "training_fits.jsonl", "serving.jsonl", "serving_fits.jsonl", "speed.jsonl")

RECORD = {
    "id": "one",
    "family": "here",
    "grade": "A",
    "scenario": {
        "version": 1,
        "task": "pretrain",
        "model": {"id": "a/b"},
        "hardware": {"devices": [{"gpu": "unknown", "count": 1}]},
    },
    "rank": "any",
    "observed": {"peak_allocated_bytes": 100, "fits": True},
    "source": "somewhere",
}


@cache
def shipped() -> tuple[Record, ...]:
    """The records of all shipped files."""
    return read_records((name, (TRUTH / name).read_text(encoding="utf-8")) for name in FILES)


def read(*changes: dict[str, Any]) -> Any:
    lines = [json.dumps(RECORD | change) for change in changes]
    return read_records([("file.jsonl", "\n".join(lines) + "\n\n")])
