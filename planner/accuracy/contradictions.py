"""Measurement records that contradict each other: at least one of two is wrong, or their question lacks something."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from planner.accuracy.truth import Record
from planner.scenario import to_document

CONTRADICTION_FRAC: Final = 0.02
"""Two answers to one question may differ by this much before one of them has to be `undetermined`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two records that ask the same and answer differently.

    Attributes:
        first: Id of the earlier record.
        second: Id of the later one.
        field: The metric.
        apart_frac: Their distance as a share of the larger reading.
    """

    first: str
    second: str
    field: str
    apart_frac: float


def contradictions(records: Iterable[Record]) -> Iterator[Contradiction]:
    """Pairs with one scenario and one rank whose answers are over 2 % apart and not marked `undetermined`.

    The user's label and the group don't count as part of the question.
    """
    asked: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.scenario is None:
            continue
        document = {key: value for key, value in to_document(record.scenario).items() if key != "name"}
        asked.setdefault((json.dumps(document, sort_keys=True), record.rank), []).append(record)
    for same in asked.values():
        for i, first in enumerate(same):
            for second in same[i + 1 :]:
                yield from _apart(first, second)


def _apart(first: Record, second: Record) -> Iterator[Contradiction]:
    for name in first.scored.keys() & second.scored.keys():
        low, high = sorted((float(first.scored[name]), float(second.scored[name])))
        apart = (high - low) / high if high else 0.0
        if apart > CONTRADICTION_FRAC:
            yield Contradiction(first=first.id, second=second.id, field=name, apart_frac=apart)
