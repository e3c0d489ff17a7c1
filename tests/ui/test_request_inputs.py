"""Lengths, a common beginning and a draft, set on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.ui.conftest import checked, html
from ui.examples import story_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

    OpenPage = Callable[..., AppTest]
SERVED = "llama-70b-awq-two-l40s"


def opened(open_page: OpenPage) -> AppTest:
    page = open_page()
    page.session_state["scenario_document"] = story_document(SERVED)
    return checked(page.run())


def document(page: AppTest) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = page.session_state["scenario_document"]
    return found


def test_a_draft_model_is_chosen_and_taken_away_again(open_page: OpenPage) -> None:
    page = checked(opened(open_page).selectbox(key="speculative").select("draft").run())
    assert document(page)["serving"]["speculative"] == "draft"
    assert "Speculative decoding" in html(page)
    page = checked(page.selectbox(key="draft_model").select("meta-llama/Llama-3.2-1B").run())
    assert document(page)["serving"]["draft_model"] == {"id": "meta-llama/Llama-3.2-1B"}
    page = checked(page.number_input(key="serving.draft_tokens").set_value(4).run())
    assert document(page)["serving"]["draft_tokens"] == 4
    assert "Draft" in html(page)
    page = checked(page.selectbox(key="speculative").select("none").run())
    assert not {"speculative", "draft_model", "draft_tokens"} & document(page)["serving"].keys()


def test_a_common_beginning_is_set(open_page: OpenPage) -> None:
    page = opened(open_page)
    page.number_input(key="workload.prompt_tokens").set_value(2048).run()
    page = checked(page.number_input(key="workload.shared_prefix_tokens").set_value(1024).run())
    assert document(page)["workload"]["shared_prefix_tokens"] == 1024
    page = checked(page.number_input(key="workload.shared_prefix_tokens").set_value(4096).run())
    assert "1024" not in str(document(page)["workload"])
    assert 'class="msg bad"' in html(page)
