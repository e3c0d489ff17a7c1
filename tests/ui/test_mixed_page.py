"""Layouts over unequal cards on the Plan page: the articles' own refused with its fields, one that works beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from planner.link import encode
from planner.validation import parse_scenario
from tests.ui.conftest import checked, headline, html
from ui.answers import answer
from ui.document import get, put
from ui.examples import refused_document, story_document
from ui.mixed import panel

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

    OpenPage = Callable[..., AppTest]

STORY = "llama-13b-two-a100-four-3090"
FIELDS = ("parallel.stages.0.tensor", "parallel.stages.2.tensor")


def opened(open_page: OpenPage, document: dict[str, Any] | None) -> AppTest:
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return open_page(s=encode(scenario))


def button(page: AppTest, key: str) -> Any:
    return next(each for each in page.button if each.key == key)


def test_the_articles_layout_names_its_fields_and_a_working_one_is_one_click_away(
    open_page: OpenPage,
) -> None:
    page = opened(open_page, refused_document(STORY))
    assert "cannot be answered" in headline(page)
    for field in FIELDS:
        assert field in html(page)
    checked(button(page, "apply_mixed_fastest").click().run())
    assert "to spare" in headline(page)
    applied = page.session_state["scenario_document"]
    found = answer(applied)
    assert not found.errors
    assert sum(stage["layers"] for stage in get(applied, "parallel.stages")) == 40


def test_the_story_shows_both(open_page: OpenPage) -> None:
    page = opened(open_page, story_document(STORY))
    assert not [each for each in page.button if (each.key or "").startswith("apply_mixed")]
    page.session_state["mixed"] = True
    checked(page.run())
    for field in FIELDS:
        assert field in html(page)
    checked(button(page, "apply_mixed_published").click().run())
    assert page.session_state["scenario_document"] == refused_document(STORY)


def test_equal_cards_have_no_section(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise AssertionError("searched for nothing")

    monkeypatch.setattr(panel, "_layouts", fail)
    document = put(story_document(STORY), "hardware.devices", [{"gpu": "a100-sxm-80gb", "count": 2}])
    page = opened(open_page, put(document, "parallel", None))
    assert "mixed" not in page.session_state
