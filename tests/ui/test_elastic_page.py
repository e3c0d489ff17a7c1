"""Workers that join and leave, and the small trial, as sections of the Plan page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.link import encode
from planner.validation import parse_scenario
from tests.ui.conftest import checked, headline, html
from ui.document import get
from ui.examples import story_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

    OpenPage = Callable[..., AppTest]


def opened(open_page: OpenPage, story: str, section: str) -> AppTest:
    scenario, issues = parse_scenario(story_document(story))
    assert scenario is not None, issues
    page = open_page(s=encode(scenario))
    page.session_state[section] = True
    return checked(page.run())


def field(page: AppTest, key: str) -> Any:
    return next(each for each in page.number_input if each.key == key)


def test_the_range_of_workers_is_the_questions_own(open_page: OpenPage) -> None:
    page = opened(open_page, "llama-7b-full-four-3090", "elastic")
    assert (field(page, "elastic_min_data").value, field(page, "elastic_max_data").value) == (1, 8)
    checked(field(page, "elastic_max_data").set_value(32).run())
    document = page.session_state["scenario_document"]
    assert get(document, "elastic") == {"min_data": 1, "max_data": 32}
    assert "It fits from" in html(page)
    checked(field(page, "elastic_min_data").set_value(40).run())
    assert get(page.session_state["scenario_document"], "elastic") == {"min_data": 32, "max_data": 40}


def test_the_trial_opens_as_a_question(open_page: OpenPage) -> None:
    page = opened(open_page, "llama-7b-full-four-3090", "trial")
    assert "32 layers" in html(page)
    button = next(each for each in page.button if each.key == "apply_trial")
    checked(button.click().run())
    document = page.session_state["scenario_document"]
    assert get(document, "hardware.devices.0.count") == 1
    assert get(document, "model.config.num_hidden_layers") < 32
    assert "GPU 0" in headline(page)


def test_unequal_cards_are_told_why_not(open_page: OpenPage) -> None:
    for section in ("elastic", "trial"):
        assert "not alike" in html(opened(open_page, "llama-8b-six-unequal-cards", section))
