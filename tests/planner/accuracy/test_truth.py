"""The record loader is strict, and reads the shipped records whole."""

import json
from typing import Any

import pytest

from planner.accuracy.truth import METRICS, RecordError, read_records
from tests.planner.accuracy.records import FILES, RECORD, TRUTH, read, shipped


def test_the_shipped_files_load_whole() -> None:
    records = shipped()
    assert len(records) == sum(len((TRUTH / name).read_text(encoding="utf-8").splitlines()) for name in FILES)
    assert all(record.scenario is not None for record in records)
    assert {metric for record in records for metric in record.observed} <= set(METRICS)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"surprise": 1}, "surprise"),
        ({"observed": {"peak_bytes": 1}}, "observed.peak_bytes"),
        ({"observed": {}}, "observed"),
        ({"observed": {"mfu_kind": "model"}}, "observed"),
        ({"observed": {"peak_allocated_bytes": 1.5}}, "observed.peak_allocated_bytes"),
        ({"observed": {"peak_allocated_bytes": -1}}, "observed.peak_allocated_bytes"),
        ({"observed": {"peak_allocated_bytes": "1"}}, "observed.peak_allocated_bytes"),
        ({"observed": {"fits": 1}}, "observed.fits"),
        ({"rank": "second_stage"}, "rank"),
        ({"grade": "C"}, "grade"),
        ({"undetermined": ["kv_bytes"]}, "undetermined"),
        ({"rounding_bytes": {"kv_bytes": 1}}, "rounding_bytes"),
        ({"rounding_bytes": -1}, "rounding_bytes.constrained-int"),
        ({"id": "two words"}, "id"),
    ],
)
def test_a_wrong_record_is_refused_with_its_place(change: dict[str, Any], field: str) -> None:
    with pytest.raises(RecordError) as caught:
        read({}, {"id": "two"} | change)
    assert (caught.value.file, caught.value.line) == ("file.jsonl", 2)
    assert caught.value.field == field


@pytest.mark.parametrize("text", ["{", "[1]", "null", '{"id": NaN}', "[" * 100_000, "9" * 5000])
def test_a_line_that_is_no_record(text: str) -> None:
    with pytest.raises(RecordError) as caught:
        read_records([("file.jsonl", text)])
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f.jsonl:1: line: nothing given; allowed: one JSON object a line with id, family"),
        ("[1]", "f.jsonl:1: line: [1] given; allowed: one JSON object a line with id, family"),
        ("{\n", 'f.jsonl:1: line: "{" given; allowed: one JSON object a line with id, family'),
        ("{}", "f.jsonl:1: id: nothing given; allowed: a value, the field is required"),
        (
            json.dumps(RECORD | {"id": "two words"}),
            r'f.jsonl:1: id: "two words" given; allowed: text like ^\S',
        ),
        (json.dumps(RECORD | {"grade": "C"}), "f.jsonl:1: grade: \"C\" given; allowed: 'A' or 'B'"),
        (json.dumps(RECORD | {"observed": 3}), "f.jsonl:1: observed: 3 given; allowed: an object"),
        (
            json.dumps(RECORD | {"observed": {"mfu": 2}}),
            "f.jsonl:1: observed.mfu: 2 given; allowed: less than or equal to 1.5",
        ),
        (
            json.dumps(RECORD | {"observed": {"speed": 1}}),
            "f.jsonl:1: observed.speed: 1 given; allowed: peak_allocated_bytes,",
        ),
    ],
)
def test_a_refusal_names_what_was_given_and_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(RecordError) as caught:
        read_records([("f.jsonl", text)])
    assert str(caught.value).startswith(said)


def test_an_id_is_used_once() -> None:
    with pytest.raises(RecordError) as caught:
        read({}, {})
    assert caught.value.problem == "id_twice"


def test_a_scenario_that_the_schema_cannot_say_is_kept_with_its_issues() -> None:
    (record,) = read({"scenario": {"version": 1, "task": "distil"}})
    assert record.scenario is None
    assert any(issue.field == "task" for issue in record.issues)


def test_rounding_for_all_byte_fields_or_by_field() -> None:
    (whole,) = read({"rounding_bytes": 5})
    assert dict(whole.rounding_bytes) == {"peak_allocated_bytes": 5}
    (one,) = read({"rounding_bytes": {"peak_allocated_bytes": 7}})
    assert dict(one.rounding_bytes) == {"peak_allocated_bytes": 7}


def test_undetermined_fields_are_not_scored() -> None:
    (record,) = read({"undetermined": ["peak_allocated_bytes"]})
    assert record.scored == {"fits": True}


SERVED = {
    "version": 1,
    "task": "serve",
    "model": {"id": "a/b"},
    "hardware": {"devices": [{"gpu": "unknown"}]},
}
PART = "only the text decoder of the model is described"


@pytest.mark.parametrize(
    ("runtime", "share", "assumed", "scored"),
    [
        ("vllm", None, [], {"weights_bytes", "kv_bytes"}),
        ("vllm", None, ["gmu not in the table"], {"weights_bytes"}),
        ("sglang", None, ["mem_fraction not read"], {"weights_bytes"}),
        ("sglang", None, ["mem_fraction default"], {"weights_bytes", "kv_bytes"}),
        ("vllm", 0.9, ["gmu not in the table"], {"weights_bytes", "kv_bytes"}),
        ("vllm", None, [PART], set()),
        ("llama_cpp", None, [PART], {"kv_bytes"}),
    ],
)
def test_what_an_untold_input_settles_is_not_scored(
    runtime: str, share: float | None, assumed: list[str], scored: set[str]
) -> None:
    serving = {} if share is None else {"memory_utilization": share}
    document = SERVED | {"runtime": {"name": runtime}, "serving": serving}
    figures = {"weights_bytes": 10, "kv_bytes": 20}
    (record,) = read({"scenario": document, "assumed": assumed, "observed": figures})
    assert set(record.scored) == scored


@pytest.mark.parametrize(
    ("model", "serving", "scored"),
    [
        ({"id": "a/b"}, {}, True),  # a known model names its length
        ({"config": {"model_type": "t5", "d_model": 512}}, {}, False),
        ({"config": {"model_type": "t5", "d_model": 512}}, {"max_model_len": 512}, True),
        ({"config": {"model_type": "llama", "max_position_embeddings": 4096}}, {}, True),
        ({"config": {"model_type": "gemma3", "text_config": {"max_position_embeddings": 4096}}}, {}, True),
    ],
)
def test_a_fit_without_any_length_is_not_scored(
    model: dict[str, Any], serving: dict[str, Any], scored: bool
) -> None:
    document = SERVED | {"model": model, "serving": serving, "runtime": {"name": "tgi"}}
    (record,) = read({"scenario": document, "observed": {"fits": False}})
    assert ("fits" in record.scored) is scored
