"""The table of issue codes."""

import copy

import pytest

from planner.checks.codes import CODES, make
from planner.validation import parse_scenario
from tests.planner.validation.questions import ROOT, document


def test_make_refuses_what_the_table_does_not_list() -> None:
    with pytest.raises(KeyError):
        make("no_such_code", "task")
    with pytest.raises(KeyError):
        make("newer_version", "version", given=2)


def test_every_code_in_the_sources_is_in_the_table_and_used() -> None:
    text = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "planner").rglob("*.py"))
        if path not in (ROOT / "planner" / "checks" / "codes.py", ROOT / "planner" / "cli" / "words.py")
    )
    unused = [code for code in CODES if f'"{code}"' not in text]
    assert unused == []


def test_checks_leave_the_document_alone() -> None:
    asked = document(parallel={"tensor": 3})
    before = copy.deepcopy(asked)
    parse_scenario(asked)
    assert asked == before
