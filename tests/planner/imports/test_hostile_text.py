"""Text made to hurt is refused with a code; nothing that is pasted raises anything else."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_db import load_tables
from planner.cli.files import REASONS as SENTENCES
from planner.cli.files import REFUSED_IMPORTS, import_lines, refused_import
from planner.exports.catalog import READ_BY, export, offered
from planner.imports import FORMATS, REASONS, ImportRefusedError, import_text
from planner.yaml_text import LONGEST_YAML, MOST_NODES, TextError, read_json, read_yaml, write_yaml
from tests.planner.exports.cases import CASES, planned

BASE: dict[str, Any] = {
    "version": 1,
    "task": "full",
    "model": {"id": "meta-llama/Llama-3.1-8B"},
    "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 8}]},
}
LAUGHS = "a: &a [x, x]\n" + "".join(f"k{i}: &k{i} [*a, *a]\n" for i in range(9))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "format_unknown"),
        ("hello there", "not_a_mapping"),
        ("- 1\n- 2", "not_a_mapping"),
        ("some: key", "format_unknown"),
        (json.dumps({"task": "full", "model": {}, "hardware": {}}), "format_scenario"),
        (LAUGHS, "yaml_alias"),
        ("base_model: &x y\nadapter: *x", "yaml_alias"),
        ("a: " + "[" * 60 + "]" * 60, "too_deep"),
        ("a: " + "[" * 5_000, "too_deep"),
        ("a: [" + "1," * (MOST_NODES + 1) + "]", "too_large"),
        ("a: " + "x" * LONGEST_YAML, "text_too_long"),
        ("{" + '"a": 1,' * 400_000 + '"b": 2}', "text_too_long"),
        ('{"bf16": ' + "[" * 100_000 + "]" * 100_000 + "}", "too_deep"),
        ("a: !!python/object/apply:os.system [echo]", "format_unknown"),
        ("base_model: x\nbase_model: y", "twice"),
        ('{"bf16": true, "bf16": false}', "twice"),
        ("a: 'b", "not_yaml"),
        ("a: b: c", "not_yaml"),
        ('{"bf16": }', "not_json"),
        ("vllm serve 'x --a", "quotes_open"),
        ("vllm serve x " + "--a " * 20_000, "text_too_long"),
        ("vllm serve x " + "--a " * 5_000, "too_large"),
        ("---\na: 1\n---\nb: 2", "not_yaml"),
    ],
)
def test_it_is_refused_by_name(text: str, code: str) -> None:
    with pytest.raises(ImportRefusedError) as refusal:
        import_text(text, BASE)
    assert refusal.value.code == code
    assert refused_import(refusal.value)


def test_shell_variables_do_not_grow() -> None:
    lines = ["A='--x 1 --y 2'", *(f"{b}=${a}${a}${a}${a}" for a, b in zip("ABCDEFG", "BCDEFGH", strict=True))]
    found = import_text("\n".join([*lines, "vllm serve m/x $H --max-num-seqs 4"]), BASE)
    assert found.document["serving"]["max_sequences"] == 4


def test_a_tag_builds_nothing() -> None:
    found = import_text("base_model: !!python/name:os.system\nadapter: !!python/object/new:x [1]", BASE)
    assert found.source == "axolotl"


def test_yaml_numbers_are_numbers() -> None:
    assert read_yaml("a: 1e-4\nb: 2.0e-5\nc: 1_000\nd: '5'\ne: yes\nf: ~\ng: 012") == {
        "a": 1e-4, "b": 2e-5, "c": 1000, "d": "5", "e": True, "f": None, "g": 12,
    }  # fmt: skip


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8),
        st.one_of(
            st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.text("abc: #-'\"\n", max_size=12)
        ),
        max_size=6,
    )
)
def test_what_is_written_reads_back(values: dict[str, Any]) -> None:
    assert (read_yaml(write_yaml(values)) or {}) == values


def refusal_of(read: Any, text: str) -> str:
    """The code of a refusal, empty where the text is read."""
    try:
        read(text)
    except TextError as problem:
        return problem.code
    return ""


def said(text: str, source: str | None = None) -> list[str]:
    """Every line that an import prints, or why it was refused."""
    try:
        found = import_text(text, BASE, source)
    except ImportRefusedError as problem:
        return [refused_import(problem)]
    for remark in found.remarks:
        assert dict(remark.params).keys() == set(REASONS[remark.reason])
    return list(import_lines(found))


@pytest.mark.parametrize("read", [read_yaml, read_json])
@given(text=st.text(max_size=200))
def test_any_text_is_read_or_refused(read: Any, text: str) -> None:
    assert refusal_of(read, text) in {"", *REFUSED_IMPORTS}


@pytest.mark.parametrize("source", [None, *FORMATS])
@given(text=st.text("abcxyz:-={}[]()'\"$\\\n ,&*!|>#1.0", max_size=120))
def test_any_text_is_imported_or_refused(source: str | None, text: str) -> None:
    assert all(said(text, source))


def test_damaged_files_are_imported_or_refused() -> None:
    """Every export of every case with characters taken out, doubled and exchanged."""
    chance = random.Random(9)  # noqa: S311 - repeatable damage, not secrecy
    for name in CASES:
        for file in offered(planned(name), load_tables())[0]:
            if file.target not in READ_BY:
                continue
            text = export(planned(name), file.target, load_tables()).text
            for _ in range(6):
                places = sorted(chance.sample(range(len(text)), 3))
                assert all(said(text[: places[0]] + text[places[1] : places[2]] * 2 + text[places[0] :]))


def test_every_reason_and_refusal_has_its_sentence() -> None:
    assert SENTENCES.keys() == REASONS.keys()
