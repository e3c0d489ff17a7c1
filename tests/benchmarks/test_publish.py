"""The committed score: what the code predicts now, small, dated, and honest about what it was made from."""

import json
from datetime import date
from typing import Any

import pytest

from benchmarks import publish
from benchmarks.bands_held import EVERY as EVERY_SOURCE
from benchmarks.bands_held import held_out
from benchmarks.bands_ratios import Ratio
from benchmarks.in_sample import FEEDS, families_in, in_sample
from benchmarks.records import MEMORY_FILES, load
from hardware_db import DATA, load_tables
from planner.accuracy.predict import Prediction, predictor
from planner.accuracy.score import score
from planner.accuracy.truth import METRICS, Record

SCORE = DATA / "score.json"
MOST_BYTES = 300_000
EVERY = 6
STALE = "hardware_db/data/score.json is not what the code predicts now: python -m benchmarks.publish"


@pytest.fixture(scope="module")
def records() -> tuple[Record, ...]:
    return load(MEMORY_FILES)


@pytest.fixture(scope="module")
def committed() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SCORE.read_text(encoding="utf-8"))
    return found


def rows_of(content: dict[str, Any]) -> dict[tuple[str, str], list[Any]]:
    """[predicted, observed, error, inside the band] by record and metric."""
    return {
        (content["records"][record][0], content["metrics"][metric]): figures
        for record, metric, *figures in content["rows"]
    }


def test_a_sample_of_the_rows_is_what_the_code_predicts_now(
    committed: dict[str, Any], records: tuple[Record, ...]
) -> None:
    sample = score(records[::EVERY], predictor(load_tables()))
    kept = rows_of(committed)
    wanted = {
        (row.id, row.metric): [
            publish.rounded(row.predicted),
            publish.rounded(row.observed),
            publish.rounded(row.error),
            row.inside_band,
        ]
        for row in sample.rows
    }
    assert len(wanted) > 200
    ids = {record.id for record in records[::EVERY]}
    sampled = {key: row for key, row in kept.items() if key[0] in ids}
    changed = sorted(key for key in wanted.keys() | sampled.keys() if wanted.get(key) != sampled.get(key))
    assert changed == [], STALE


@pytest.mark.long
def test_the_whole_file_is_what_the_command_writes_now(records: tuple[Record, ...]) -> None:
    text = SCORE.read_text(encoding="utf-8")
    tables = load_tables()
    content = publish.document(records, predictor(tables), tables, json.loads(text)["made_on"])
    same = publish.as_text(content) == text
    assert same, STALE


def test_it_was_made_from_the_measurements_as_they_are(committed: dict[str, Any]) -> None:
    assert committed["inputs"] == list(publish.inputs()), STALE


def test_it_is_small_dated_and_one_line_a_row(committed: dict[str, Any]) -> None:
    text = SCORE.read_text(encoding="utf-8")
    assert len(text.encode()) < MOST_BYTES
    assert date.fromisoformat(committed["made_on"]) >= date(2026, 11, 29)
    assert committed["made_by"] == publish.COMMAND
    assert committed["versions"]["scenario_schema"] >= 1
    assert text == publish.as_text(committed)
    assert text.count("\n") > len(committed["rows"]) + len(committed["records"])


def test_the_summary_is_that_of_the_rows(committed: dict[str, Any], records: tuple[Record, ...]) -> None:
    assert committed["counts"]["records"] == len(records)
    assert committed["counts"]["figures"] == len(committed["rows"])
    fits = committed["fits"]
    decided = sum(
        fits[key] for key in ("fits_said_fits", "fits_said_not", "failed_said_fits", "failed_said_not")
    )
    assert decided == sum(item["n"] for item in committed["verdicts"])
    right = fits["fits_said_fits"] + fits["failed_said_not"]
    assert right == sum(item["right"] for item in committed["verdicts"])
    assert fits["unsafe_logged"] + fits["unsafe_inferred"] == fits["failed_said_fits"]


def test_runs_tell_the_band_and_what_lies_inside_it_without_the_source() -> None:
    found = [Ratio(family="a", runtime="vllm", task="serve", value=1.25) for _ in range(9)]
    found += [Ratio(family="c", runtime="sglang", task="serve", value=1.25)]
    found += [Ratio(family="b", runtime="vllm", task="serve", value=4.0)]
    found += [Ratio(family="b", runtime="vllm", task="serve", value=4.0, outermost=False)]
    held = held_out(found, load_tables())
    row = next(row for row in publish.runs(held, load_tables(), {"b"}) if row["runtime"] == "vllm")
    assert row["sources"] == 2
    assert row["median_abs_error"] == pytest.approx(0.2)
    assert row["clean_errors"] == [-0.2] * 9
    assert row["own_errors"] == [-0.75]
    band = next(b for b in load_tables().bands if (b.runtime, b.task) == ("vllm", "serve"))
    assert (row["low_frac"], row["high_frac"]) == (band.low_frac, band.high_frac)
    assert row["held_inside"] == row["clean_inside"] == 9, "the stranger lies outside the band of the nine"


def test_runs_and_cells_of_coverage_are_the_same_count(committed: dict[str, Any]) -> None:
    rows, runs = committed["coverage"], committed["runs"]
    cells, layers = (
        [row for row in rows if (row["family"] == EVERY_SOURCE) is every] for every in (False, True)
    )
    for part in (cells, layers):
        assert sum(row["runs_inside"] for row in part) == sum(row["held_inside"] for row in runs)
        assert sum(row["runs"] for row in part) == sum(
            len(row["clean_errors"]) + len(row["own_errors"]) for row in runs
        )
        assert all(row["inside"] + row["below"] + row["above"] == row["n"] for row in part)
    assert {row["layer"]: row["n"] for row in layers} == {
        row["layer"]: sum(cell["n"] for cell in cells if cell["layer"] == row["layer"]) for row in layers
    }


def test_the_band_holds_as_many_runs_of_sources_not_behind_it_as_it_should(committed: dict[str, Any]) -> None:
    runs = committed["runs"]
    n = sum(len(row["clean_errors"]) + len(row["own_errors"]) for row in runs)
    assert 0.85 <= sum(row["held_inside"] for row in runs) / n <= 0.97
    clean = sum(len(row["clean_errors"]) for row in runs)
    assert 0.85 <= sum(row["clean_inside"] for row in runs) / clean <= 0.97


def test_every_constant_that_names_a_source_of_the_score_says_what_it_decides(
    committed: dict[str, Any], records: tuple[Record, ...]
) -> None:
    constants = load_tables().constants
    families = sorted({record.family for record in records})
    fitted = {
        name
        for name, constant in constants.items()
        if families_in(f"{constant.source} {constant.how}", families)
    }
    assert fitted == set(FEEDS)
    assert {metric for metrics in FEEDS.values() for metric in metrics} <= set(METRICS)
    named = {item["name"]: item for item in committed["in_sample"]}
    assert set(named) == set(FEEDS)
    assert named["cuda_context_hopper_bytes"]["families"] == ["vllm-0.19-h100-logs"]
    assert named["cuda_context_hopper_bytes"]["metrics"][0] == "cuda_context_bytes"


def test_a_constant_of_no_scored_source_is_not_named(records: tuple[Record, ...]) -> None:
    found = {item.name for item in in_sample(load_tables().constants, records)}
    assert "cublas_workspace_bytes" not in found


def test_numbers_are_rounded_far_below_what_is_shown() -> None:
    assert publish.rounded(1234567.891) == 1234570
    assert publish.rounded(0.123456789) == 0.123457
    assert publish.rounded(2.0) == 2
    assert publish.rounded(True) is True
    assert publish.rounded(None) is None


def test_what_has_no_answer_is_kept_with_its_reason(records: tuple[Record, ...]) -> None:
    some = records[:5]
    content = publish.document(
        some, lambda *_: Prediction(reason="model_id_unknown at model.id"), load_tables(), "2026-01-02"
    )
    assert content["rows"] == []
    assert [item[2] for item in content["unsupported"]] == ["model_id_unknown at model.id"] * 5


def test_licences_of_the_measurements_are_in_the_file(committed: dict[str, Any]) -> None:
    assert len(committed["licences"]) > 10
    assert all(len(row) == 3 and row[0] and row[1] for row in committed["licences"])
