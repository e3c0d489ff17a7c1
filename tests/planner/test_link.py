"""The share link: round trips, and everything that can go wrong with one."""

import base64
import hashlib
import json
import string
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import link
from planner.issues import ScenarioError, Severity
from planner.link import LONGEST_LINK, decode, encode
from planner.scenario import Scenario, json_schema, to_document
from planner.validation import parse_scenario

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SCHEMA = json_schema()

PLAIN = {
    "version": 1,
    "task": "full",
    "model": {"id": "meta-llama/Llama-3.1-8B"},
    "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 8}]},
    "training": {"micro_batch": 2, "sequence_length": 4096},
    "parallel": {"sharding": "zero3"},
}
PLAIN_LINK = "1.okY2qya3SIklpWxALhEwMnUtRtJDSk4okWxETMDUAgA"


def scenario_of(document: dict[str, Any]) -> Scenario:
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return scenario


def packed(document: object, *, version: int = 1) -> str:
    """A link with a good checksum around any JSON."""
    plain = document if isinstance(document, bytes) else json.dumps(document).encode()
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9, zdict=link._DICTIONARY)
    body = link._check(plain) + packer.compress(plain) + packer.flush()
    return f"{version}." + base64.urlsafe_b64encode(body).decode().rstrip("=")


# --- generated scenarios: every field of the published schema


def strategy(node: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a node of the published schema allows."""
    if "$ref" in node:
        node = SCHEMA["$defs"][node["$ref"].rpartition("/")[2]]
    if "anyOf" in node:
        return st.one_of([strategy(choice) for choice in node["anyOf"] if choice.get("type") != "null"])
    if "enum" in node:
        return st.sampled_from(node["enum"])
    if "const" in node:
        return st.just(node["const"])
    return _of_type(node, node.get("type"))


def _of_type(node: dict[str, Any], kind: str | None) -> st.SearchStrategy[Any]:
    if kind == "object":
        return _object(node)
    if kind == "array":
        high = min(node.get("maxItems", 4), 4)
        return st.lists(strategy(node["items"]), min_size=node.get("minItems", 0), max_size=high)
    if kind == "string":
        return _text(node)
    if kind == "integer":
        return st.integers(node["minimum"], node["maximum"])
    if kind == "number":
        low = node.get("minimum", node.get("exclusiveMinimum"))
        return st.floats(low, node["maximum"], exclude_min="exclusiveMinimum" in node, allow_nan=False)
    assert kind == "boolean", node
    return st.booleans()


def _text(node: dict[str, Any]) -> st.SearchStrategy[str]:
    if "pattern" in node:
        return st.from_regex(node["pattern"].replace("$", r"\Z"))
    return st.text(st.characters(codec="utf-8"), min_size=node.get("minLength", 0), max_size=12)


def _object(node: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "properties" not in node:
        numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
        leaf = st.none() | st.booleans() | numbers | st.text(st.characters(codec="utf-8"), max_size=8)
        inner = leaf | st.lists(leaf, max_size=3) | st.dictionaries(st.sampled_from("abc"), leaf, max_size=2)
        return st.dictionaries(
            st.text(string.ascii_lowercase + "_", min_size=1, max_size=12), inner, max_size=5
        )
    fields = {name: strategy(inner) for name, inner in node["properties"].items()}
    required = {name: fields.pop(name) for name in node.get("required", ())}
    return st.fixed_dictionaries(required, optional=fields)


@settings(max_examples=150, deadline=None)
@given(strategy(SCHEMA))
def test_round_trip_of_any_scenario(document: dict[str, Any]) -> None:
    scenario = scenario_of(document)
    text = encode(scenario)
    assert set(text) <= set(string.ascii_letters + string.digits + "-_.")
    back, issues = decode(text)
    assert issues == ()
    assert back == scenario
    assert back is not None
    assert to_document(back) == to_document(scenario)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_round_trip_of_the_examples(path: Path) -> None:
    scenario = scenario_of(json.loads(path.read_text(encoding="utf-8")))
    assert decode(encode(scenario)) == (scenario, ())


def test_a_plain_question_makes_a_short_link_that_stays_readable() -> None:
    """The text is pinned: a change of the dictionary or the layout would break links that people hold."""
    scenario = scenario_of(PLAIN)
    assert decode(PLAIN_LINK) == (scenario, ())
    assert len(encode(scenario)) <= 120


def test_the_order_of_keys_does_not_matter() -> None:
    assert encode(scenario_of(PLAIN)) == encode(scenario_of(dict(reversed(PLAIN.items()))))


def test_nothing_but_what_was_set_is_carried() -> None:
    back, _ = decode(encode(scenario_of(PLAIN)))
    assert back is not None
    assert to_document(back) == PLAIN


# --- broken and hostile links


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "characters"),
        ("hello", "characters"),
        ("1.ab cd", "characters"),
        ("1.<script>", "characters"),
        ("0.abcd", "version"),
        ("1.", "cut_short"),
        ("1.a", "damaged"),
        ("1.AAAA", "cut_short"),
        ("1.AAAAAAAAAAAA", "damaged"),
        (packed(b"not json"), "not_json"),
        (packed(b"[" * 100_000), "not_json"),
    ],
)
def test_a_broken_link_says_so(text: str, reason: str) -> None:
    scenario, issues = decode(text)
    assert scenario is None
    assert [(i.code, i.field, dict(i.params)["reason"]) for i in issues] == [("link_broken", "link", reason)]


def test_no_single_changed_character_goes_unnoticed() -> None:
    scenario = scenario_of(PLAIN)
    text = encode(scenario)
    for at in range(2, len(text)):
        for other in "A_x":
            changed = text[:at] + other + text[at + 1 :]
            back, issues = decode(changed)
            assert back in (None, scenario)
            assert back is not None or issues


def test_a_cut_link_is_refused() -> None:
    text = encode(scenario_of(PLAIN))
    for end in range(2, len(text) - 1):
        assert decode(text[:end])[0] is None


def test_a_newer_link_has_its_own_code() -> None:
    scenario, issues = decode("2.whatever")
    assert scenario is None
    assert [(i.code, dict(i.params)) for i in issues] == [("link_newer", {"given": 2, "allowed": 1})]


def test_a_newer_scenario_inside_is_refused() -> None:
    scenario, issues = decode(packed(PLAIN | {"version": 2}))
    assert scenario is None
    assert issues[0].code == "newer_version"


def test_a_bomb_is_stopped_before_it_unpacks() -> None:
    bomb = packed(b'{"name": "' + b"a" * 20_000_000 + b'"}')
    assert len(bomb) < LONGEST_LINK
    scenario, issues = decode(bomb)
    assert scenario is None
    assert dict(issues[0].params)["reason"] == "too_large"


def test_a_long_text_is_not_even_read() -> None:
    assert decode("1." + "a" * 40_000)[1][0].code == "link_too_long"


def test_a_scenario_too_large_for_a_link_is_refused() -> None:
    config = {f"k{i}": hashlib.sha256(str(i).encode()).hexdigest() for i in range(2000)}
    with pytest.raises(ScenarioError) as caught:
        encode(scenario_of(PLAIN | {"model": {"config": config}}))
    assert caught.value.issues[0].code == "link_too_long"


# --- fields that can't be read


@pytest.mark.parametrize(
    ("change", "dropped"),
    [
        ({"training": {"micro_batch": 2, "sequence_length": 4096, "turbo": True}}, "training.turbo"),
        ({"training": {"micro_batch": 0, "sequence_length": 4096}}, "training.micro_batch"),
        ({"training": {"micro_batch": float("nan"), "sequence_length": 4096}}, "training.micro_batch"),
        ({"training": 5}, "training"),
        ({"future_block": {"a": [1]}}, "future_block"),
        ({"runtime": {"name": "vllm2"}}, "runtime.name"),
        ({"autoscale": {"step_up": -1}}, "autoscale.step_up"),
        ({"elastic": {"min_data": 1}}, "elastic"),
        ({"x" * 90: 1}, "x" * 90),
    ],
)
def test_a_field_that_cannot_be_read_is_dropped_and_named(change: dict[str, Any], dropped: str) -> None:
    scenario, issues = decode(packed(PLAIN | change))
    assert scenario is not None
    assert [(i.code, i.severity) for i in issues] == [("link_fields_dropped", Severity.WARNING)]
    assert dict(issues[0].params)["fields"] == dropped
    assert scenario.task == "full"
    assert scenario.parallel.sharding == "zero3"


def test_a_bad_device_row_is_dropped_and_the_rest_stay() -> None:
    rows = [{"gpu": "h100-sxm-80gb"}, {"count": 2}, {"gpu": "l4-24gb", "count": 0}]
    scenario, issues = decode(packed(PLAIN | {"hardware": {"devices": rows}}))
    assert scenario is not None
    assert [(row.gpu, row.count) for row in scenario.hardware.devices] == [
        ("h100-sxm-80gb", 1),
        ("l4-24gb", 1),
    ]
    assert dict(issues[0].params)["fields"] == "hardware.devices.2.count, hardware.devices.1"


@pytest.mark.parametrize("change", [{"task": "guess"}, {"model": 3}, {"hardware": {"devices": []}}])
def test_without_what_a_question_needs_there_is_none(change: dict[str, Any]) -> None:
    scenario, issues = decode(packed(PLAIN | change))
    assert scenario is None
    assert any(issue.severity is Severity.ERROR for issue in issues)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | st.from_regex(r"[0-9]{1,3}\.[A-Za-z0-9_-]{0,60}", fullmatch=True))
def test_any_text_is_answered(text: str) -> None:
    scenario, issues = decode(text)
    assert scenario is not None or issues


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*SCHEMA["properties"], "x"]),
        st.none()
        | st.integers(-2, 2)
        | st.lists(st.integers(0, 3), max_size=2)
        | st.just({})
        | st.just({"x": 1}),
        max_size=5,
    )
)
def test_any_document_is_answered(change: dict[str, Any]) -> None:
    scenario, issues = decode(packed(PLAIN | change))
    assert scenario is not None or any(issue.severity is Severity.ERROR for issue in issues)
