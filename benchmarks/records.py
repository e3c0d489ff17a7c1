"""The published measurements of tests/data/truth, read from disk for the benchmarks."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from planner.accuracy.truth import Record, read_records

TRUTH: Final = Path(__file__).parent.parent / "tests" / "data" / "truth"
MEMORY_FILES: Final = ("training.jsonl", "training_fits.jsonl", "serving.jsonl", "serving_fits.jsonl")


def load(names: Iterable[str]) -> tuple[Record, ...]:
    """The records of some files.

    Raises:
        RecordError: A line is not a record.
    """
    return read_records((name, (TRUTH / name).read_text(encoding="utf-8")) for name in names)
