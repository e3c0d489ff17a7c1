"""Constants fitted on one half of the models and scored on the other."""

import pytest

from benchmarks.cross_validation import GRIDS, METRIC, errors, halves, with_constants
from benchmarks.records import load
from hardware_db import load_tables

RECORDS = [r for r in load(("training.jsonl",)) if METRIC in r.scored and r.scenario is not None]
TABLES = load_tables()


def test_the_halves_share_no_model_and_lose_no_run() -> None:
    left, right = halves(RECORDS)
    assert len(left) + len(right) == len(RECORDS)
    assert min(len(left), len(right)) > len(RECORDS) / 4
    ids = [{r.scenario.model.id for r in half if r.scenario} for half in (left, right)]
    assert not (ids[0] - {None}) & (ids[1] - {None})


def test_another_constant_gives_other_errors_and_leaves_the_tables_alone() -> None:
    few = RECORDS[:40]
    before = errors(few, TABLES)
    changed = with_constants(TABLES, {"training_modules_bytes": 0, "allocator_retained_frac": 1.0})
    assert errors(few, changed) != before
    assert errors(few, TABLES) == before


@pytest.mark.parametrize("name", GRIDS)
def test_the_shipped_value_lies_within_what_is_tried(name: str) -> None:
    assert min(GRIDS[name]) <= TABLES.constants[name].value <= max(GRIDS[name])
