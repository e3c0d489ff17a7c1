"""Buttons of sections that are drawn apart from the page: pressed as the browser does, the section alone runs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData
from streamlit.testing.v1 import local_script_runner

from planner.link import encode
from planner.validation import parse_scenario
from tests.ui.conftest import checked, headline
from ui.examples import refused_document, story_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

    OpenPage = Callable[..., AppTest]

STORY = "llama-13b-two-a100-four-3090"


def fragment_id(page: AppTest, name: str) -> str:
    """Streamlit's id of the section that a function draws."""
    for found, wrapped in page._fragment_storage._fragments.items():
        cells = [cell.cell_contents for cell in wrapped.__closure__ or ()]
        if name in [getattr(cell, "__name__", None) for cell in cells]:
            return found
    raise AssertionError(f"no section {name}")


@pytest.mark.parametrize(
    ("section", "name", "pressed"),
    [("mixed", "draw_mixed", "apply_mixed_fastest"), ("trial", "draw_trial", "apply_trial")],
)
def test_a_question_loaded_by_a_section_is_the_pages(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, section: str, name: str, pressed: str
) -> None:
    document = refused_document(STORY) if section == "mixed" else story_document(STORY)
    assert document is not None
    if section == "trial":
        document["hardware"] = {"devices": [{"gpu": "a100-sxm-80gb", "count": 16}]}
        document["parallel"] = {"sharding": "zero3"}
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    page = open_page(s=encode(scenario))
    page.session_state[section] = True
    checked(page.run())
    before = headline(page)
    data = partial(RerunData, fragment_id=fragment_id(page, name))
    monkeypatch.setattr(local_script_runner, "RerunData", data)
    button = next(each for each in page.button if each.key == pressed)
    checked(button.click().run())
    assert headline(page) not in ("", before)
