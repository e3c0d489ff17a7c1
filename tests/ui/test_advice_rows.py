"""The advice on Plan and Diagnose: its price in time, and several changes applied by one button."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from planner.link import encode
from planner.plan_types import Verdict
from planner.validation import parse_scenario
from tests.ui.conftest import checked, headline, html
from tests.ui.test_diagnose_page import opened
from ui.answers import answer
from ui.changes import note, outcomes, what
from ui.words import words_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

    OpenPage = Callable[..., AppTest]

SHORT: dict[str, Any] = {
    "version": 1,
    "task": "full",
    "model": {"id": "meta-llama/Llama-3.2-1B"},
    "hardware": {"devices": [{"gpu": "rtx-3090-24gb", "count": 1}]},
    "runtime": {"name": "hf_trainer"},
    "training": {"micro_batch": 2, "gradient_accumulation": 1, "sequence_length": 4096},
}


def link() -> str:
    scenario, issues = parse_scenario(SHORT)
    assert scenario is not None, issues
    return encode(scenario)


def button(page: AppTest, key: str) -> Any:
    return next(each for each in page.button if each.key == key)


def test_several_changes_are_one_click(open_page: OpenPage) -> None:
    page = open_page(s=link())
    assert "short" in headline(page)
    assert "changes together" in html(page)
    assert "% time" in html(page)
    checked(button(page, "apply_0").click().run())
    found = answer(page.session_state["scenario_document"]).plan
    assert found is not None
    assert found.verdict is Verdict.FITS


def test_diagnose_offers_them_before_single_ones_that_are_not_enough() -> None:
    page = opened(document=SHORT)
    checked(button(page, "apply_dx_several").click().run())
    found = answer(page.session_state["scenario_document"]).plan
    assert found is not None
    assert found.verdict is Verdict.FITS


@pytest.mark.parametrize("language", ["en", "zh"])
def test_several_changes_are_named_one_by_one(language: str) -> None:
    words = words_for(language)
    plan = answer(SHORT).plan
    assert plan is not None
    change = outcomes(SHORT, plan)[0].change
    for part in change.parts:
        assert what(part, words) in what(change, words)
    assert str(len(change.parts)) in note(change, words)
