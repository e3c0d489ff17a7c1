"""Records that can't both be right are found, and the shipped ones hold none."""

from typing import Any

import pytest

from planner.accuracy.contradictions import contradictions
from tests.planner.accuracy.records import RECORD, read, shipped


def test_no_two_shipped_records_contradict_each_other() -> None:
    assert list(contradictions(shipped())) == []


def test_a_contradiction_is_found() -> None:
    one, two = read({"id": "a"}, {"id": "b", "observed": {"peak_allocated_bytes": 103}})
    (pair,) = contradictions([one, two])
    assert (pair.first, pair.second, pair.field) == ("a", "b", "peak_allocated_bytes")


@pytest.mark.parametrize(
    "change",
    [
        {"observed": {"peak_allocated_bytes": 101}},
        {"rank": "last_stage", "observed": {"peak_allocated_bytes": 200}},
        {"observed": {"peak_reserved_bytes": 200}},
        {"observed": {"peak_allocated_bytes": 200}, "undetermined": ["peak_allocated_bytes"]},
        {"scenario": RECORD["scenario"] | {"task": "full"}, "observed": {"peak_allocated_bytes": 200}},  # type: ignore[operator]
    ],
)
def test_what_is_no_contradiction(change: dict[str, Any]) -> None:
    assert list(contradictions(read({"id": "a"}, {"id": "b"} | change))) == []


def test_the_label_is_no_part_of_the_question() -> None:
    named = {"scenario": RECORD["scenario"] | {"name": "x"}, "observed": {"peak_allocated_bytes": 200}}  # type: ignore[operator]
    assert len(list(contradictions(read({"id": "a"}, {"id": "b"} | named)))) == 1
