"""What constants miss that were fitted on the other half: the file of `python -m benchmarks.cross_validation`."""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from hardware_db import DATA
from hardware_db.scores import CrossSplit
from ui.method.shares import share_text
from ui.numbers import whole
from ui.words import Safe, Words

FILE: Final = DATA / "cross_validation.json"
SPLITS: Final = ("source", "model")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CrossValidation:
    """The whole file. Compared by identity, so that it can key a cache."""

    made_on: str
    constants: tuple[str, ...]
    splits: tuple[CrossSplit, ...]


@lru_cache(maxsize=2)
def cross_validation(path: Path = FILE) -> CrossValidation:
    """The figures of a file, read once."""
    tree: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return CrossValidation(
        made_on=tree["made_on"],
        constants=tuple(tree["constants"]),
        splits=tuple(CrossSplit(**item) for item in tree["splits"]),
    )


def note(found: CrossValidation, words: Words) -> Safe:
    """Both splits in a sentence each, beside the error with the shipped constants."""
    lead = words.html("method.crossed.lead", n=whole(len(found.constants)))
    return words.sentences([lead, *(_split(split, words) for split in found.splits)])


def _split(split: CrossSplit, words: Words) -> Safe:
    return words.html(
        f"method.crossed.{split.by}",
        runs=whole(split.runs),
        sources=whole(split.sources),
        held=share_text(split.mean_abs_error),
        held_median=share_text(split.median_abs_error),
        shipped=share_text(split.shipped_mean_abs_error),
        shipped_median=share_text(split.shipped_median_abs_error),
    )
