"""Documents and texts read strictly: every problem at its field, nothing raised."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.issues import Severity
from planner.scenario import json_schema, to_document
from planner.validation import document_from_text, parse_scenario
from tests.planner.validation.questions import ROOT, document, refused


@pytest.mark.parametrize(
    "value", [None, 3, "text", [], [[]], True, math.nan, {1: 2}, {"\ud800": 1}, object()]
)
def test_what_is_no_scenario_is_refused_not_raised(value: object) -> None:
    scenario, issues = parse_scenario(value)
    assert scenario is None
    assert issues


def test_missing_fields_are_named() -> None:
    _, issues = parse_scenario({})
    assert [(i.code, i.field) for i in issues] == [
        ("missing_field", f) for f in ("task", "model", "hardware")
    ]


def test_unknown_key_names_the_closest() -> None:
    issue = refused(training__micro_bach=2)
    assert (issue.code, issue.field) == ("unknown_field", "training.micro_bach")
    assert dict(issue.params)["closest"] == "micro_batch"


@pytest.mark.parametrize(
    ("field", "value", "code", "allowed"),
    [
        ("training__micro_batch", 0, "out_of_range", "integer 1..1000000"),
        ("training__micro_batch", -5, "out_of_range", "integer 1..1000000"),
        ("training__micro_batch", 2.5, "wrong_type", "integer 1..1000000"),
        ("training__micro_batch", True, "wrong_type", "integer 1..1000000"),
        ("training__micro_batch", "2", "wrong_type", "integer 1..1000000"),
        ("training__micro_batch", 10**400, "out_of_range", "integer 1..1000000"),
        ("hardware__margin_frac", math.nan, "not_finite", "number 0..0.9"),
        ("hardware__margin_frac", 0.95, "out_of_range", "number 0..0.9"),
        ("serving__memory_utilization", 0, "out_of_range", "number >0..1"),
        ("task", "pretain", "not_one_of", "pretrain, full, lora, qlora, serve"),
        ("runtime__compile", "yes", "wrong_type", "true, false"),
        ("economics__currency", "usd", "bad_text", "^[A-Z]{3}$"),
        ("hardware__devices", [], "bad_length", "array 1..256"),
        ("adapter__targets", "all", "not_one_of", "all_linear, array"),
    ],
)
def test_a_bad_value_names_field_value_and_allowed(
    field: str, value: object, code: str, allowed: str
) -> None:
    issue = refused(**{field: value})
    params = dict(issue.params)
    assert (issue.code, issue.field) == (code, field.replace("__", "."))
    assert params["allowed"] == allowed
    assert params["given"] not in (None, "")


def test_zero_gpus() -> None:
    issue = refused(hardware__devices__0__count=0)
    assert (issue.code, issue.field) == ("out_of_range", "hardware.devices.0.count")


def test_a_newer_version_has_its_own_code() -> None:
    issue = refused(version=2, something_new=1)
    assert (issue.code, issue.field) == ("newer_version", "version")


def test_deep_and_large_documents_are_refused() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    assert refused(model__config={"a": deep}).code == "too_deep"
    assert refused(model__config={"a": [0] * 200_000}).code == "too_large"


def _numeric_paths() -> list[tuple[str, ...]]:
    """Every field of the published schema that holds a number."""
    schema = json_schema()

    def walk(node: dict[str, Any], path: tuple[str, ...]) -> list[tuple[str, ...]]:
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        choices = node.get("anyOf", [node])
        if choices != [node]:
            return [p for choice in choices for p in walk(choice, path)]
        if node.get("type") in ("integer", "number"):
            return [path]
        inner = [p for key, sub in node.get("properties", {}).items() for p in walk(sub, (*path, key))]
        return inner + (walk(node["items"], (*path, "0")) if isinstance(node.get("items"), dict) else [])

    return walk(schema, ())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, -(10**40), 10**400])
def test_no_numeric_field_takes_nan_or_absurd_numbers(value: float) -> None:
    paths = _numeric_paths()
    assert len(paths) > 70
    for path in paths:
        tree: Any = value
        for part in reversed(path):
            tree = [tree] if part == "0" else {part: tree}
        asked = document()
        asked.update({key: inner for key, inner in tree.items() if key != "hardware"})
        if "hardware" in tree:
            asked["hardware"] = {"devices": [{"gpu": "unknown"}]} | tree["hardware"]
        scenario, issues = parse_scenario(asked)
        assert scenario is None, path
        assert any(issue.field == ".".join(path) for issue in issues), (path, issues)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(
    JSON,
    st.sampled_from(["task", "model", "hardware", "training", "parallel", "serving", "version", "adapter"]),
)
def test_any_json_in_any_block_is_answered(value: Any, block: str) -> None:
    scenario, issues = parse_scenario(document() | {block: value})
    assert (scenario is None) == any(issue.severity is Severity.ERROR for issue in issues)


def test_an_accepted_document_comes_back_unchanged() -> None:
    asked = document(training__micro_batch=2, parallel__tensor=4, hardware__links={"inter_node_gbit": 400.0})
    scenario, _ = parse_scenario(asked)
    assert scenario is not None
    assert to_document(scenario) == asked


def test_the_published_schema_is_the_one_in_use() -> None:
    published = json.loads((ROOT / "docs" / "scenario.schema.json").read_text(encoding="utf-8"))
    assert published == json_schema()


def test_text_that_is_no_json_names_the_place() -> None:
    document, issues = document_from_text('{"a": 1,\n "b": }', "model.config")
    assert document is None
    assert (issues[0].code, issues[0].field) == ("not_json", "model.config")
    assert dict(issues[0].params)["line"] == 2


@pytest.mark.parametrize("text", ["", "[" * 100_000, "9" * 10_000, "\x00", "nul"])
def test_hostile_text_is_answered(text: str) -> None:
    document, issues = document_from_text(text)
    assert document is None
    assert issues[0].code == "not_json"


def test_fifty_megabytes_are_not_read() -> None:
    _, issues = document_from_text(" " * 50_000_000, "model.config")
    assert issues[0].code == "text_too_long"
