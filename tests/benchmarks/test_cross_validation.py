"""Constants fitted on one half of the sources, or of the models, and scored on the other."""

import json
from collections.abc import Sequence
from statistics import fmean

import pytest

from benchmarks import cross_validation
from benchmarks.cross_validation import (
    GRIDS,
    MODEL,
    PATH,
    SOURCE,
    Half,
    Name,
    errors,
    fitted,
    halves,
    mean_error,
    model_of,
    scored_records,
    source_of,
    split_of,
    with_constants,
)
from hardware_db import load_tables
from planner.accuracy.truth import Record

TABLES = load_tables()
RECORDS = scored_records(TABLES)
SPLITS = ((SOURCE, source_of), (MODEL, model_of))


@pytest.mark.parametrize(("by", "name"), SPLITS)
def test_the_halves_share_nothing_and_lose_no_run(by: str, name: Name) -> None:
    left, right = halves(RECORDS[by], name)
    assert len(left) + len(right) == len(RECORDS[by])
    assert min(len(left), len(right)) >= 20
    assert not {name(record) for record in left} & {name(record) for record in right}


def test_the_sources_are_all_that_were_read_outside_the_allocator() -> None:
    assert len({source_of(record) for record in RECORDS[SOURCE]}) >= 5
    assert {source_of(record) for record in RECORDS[MODEL]} == {"fms-acceleration"}


def test_another_constant_gives_other_errors_and_leaves_the_tables_alone() -> None:
    few = RECORDS[MODEL][:40]
    before = errors(few, TABLES)
    changed = with_constants(TABLES, {"training_modules_bytes": 0, "allocator_retained_frac": 1.0})
    assert errors(few, changed) != before
    assert errors(few, TABLES) == before


@pytest.mark.parametrize("name", GRIDS)
def test_the_shipped_value_lies_within_what_is_tried(name: str) -> None:
    assert min(GRIDS[name]) <= TABLES.constants[name].value <= max(GRIDS[name])


def test_the_best_value_is_found_and_what_no_run_decides_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def made_up(_: Sequence[Record], tables: object) -> dict[str, tuple[float, ...]]:
        constants = tables.constants  # type: ignore[attr-defined]
        return {"a": (abs(constants["allocator_retained_frac"].value - 0.8),)}

    monkeypatch.setattr(cross_validation, "errors", made_up)
    found = fitted([], TABLES)
    assert found.pop("allocator_retained_frac") == 0.8
    assert found == {name: TABLES.constants[name].value for name in found}


def test_sources_weigh_alike_in_the_mean_and_runs_in_the_median() -> None:
    one = {"large": (0.02,) * 10, "small": (0.1,)}
    assert mean_error(one) == pytest.approx(0.06)
    halves_of = [
        Half(
            groups=("m1",),
            constants={},
            errors={"large": (0.02,) * 10},
            shipped_errors={"large": (0.01,) * 10},
        ),
        Half(
            groups=("m2",),
            constants={},
            errors={"large": (0.04,), "small": (0.1,)},
            shipped_errors={"large": (0.01,), "small": (0.1,)},
        ),
    ]
    found = split_of(MODEL, halves_of)
    assert (found.runs, found.sources) == (12, 2)
    assert found.median_abs_error == 0.02
    assert found.mean_abs_error == pytest.approx(fmean([(0.2 + 0.04) / 11, 0.1]), abs=1e-4)
    assert found.shipped_mean_abs_error == pytest.approx(0.055)


def test_the_kept_figures_are_of_the_constants_and_runs_there_are() -> None:
    """They take minutes to make, so a change of a formula leaves them be until it moves them by a point."""
    kept = json.loads(PATH.read_text(encoding="utf-8"))
    assert kept["constants"] == list(GRIDS)
    assert [split["by"] for split in kept["splits"]] == [by for by, _ in SPLITS]
    for split in kept["splits"]:
        found = errors(RECORDS[split["by"]], TABLES)
        assert split["runs"] == pytest.approx(sum(map(len, found.values())), abs=5)
        assert split["shipped_mean_abs_error"] == pytest.approx(mean_error(found), abs=0.01)
