"""The Plan page as Streamlit runs it: every story, every task, edits, errors, links."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from planner.link import decode, encode
from planner.scenario import to_document
from planner.validation import parse_scenario
from tests.ui.conftest import charts, checked, headline, html
from ui.document import put, put_all
from ui.examples import STORIES, default_document, story_document
from ui.tasks import TASKS
from ui.uploads import read_scenario_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

    from ui.document import Document

    OpenPage = Callable[..., AppTest]


def link_of(document: Document) -> str:
    """The link text of a document."""
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return encode(scenario)


def link_shown(page: AppTest) -> str:
    """The link parameter in the address bar."""
    given = page.query_params["s"]
    return given if isinstance(given, str) else given[0]


def current(page: AppTest) -> Document:
    """The document of the page's session."""
    found: Document = page.session_state["scenario_document"]
    return found


def bar_sums(page: AppTest) -> list[float]:
    """GiB of every bar, bottom to top of the figure."""
    sums: dict[int, float] = {}
    for trace in charts(page)["gpu_bars"]["data"]:
        if trace["type"] == "bar":
            for y, x in zip(trace["y"], trace["x"], strict=True):
                sums[y] = sums.get(y, 0) + x
    return [sums[y] for y in sorted(sums)]


def test_the_default_question_is_answered_at_once(open_page: OpenPage) -> None:
    page = open_page()
    assert headline(page).startswith("GPU 5 ")
    assert set(charts(page)) == {"gpu_bars"}
    assert html(page).count('<div class="step">') == 6
    assert html(page).count('<th scope="row">') == 4
    assert not page.warning
    assert not page.error


@pytest.mark.parametrize("story", STORIES)
def test_every_story_opens(open_page: OpenPage, story: str) -> None:
    page = open_page()
    checked(page.selectbox(key="story").set_value(story).run())
    assert current(page) == story_document(story)
    assert headline(page)
    assert "gpu_bars" in charts(page)


def test_one_story_fails_and_one_fits_or_is_tight(open_page: OpenPage) -> None:
    tags = [html(open_page(s=link_of(story_document(story)))) for story in STORIES[1:]]
    assert any('class="tag bad"' in text for text in tags)
    assert any('class="tag bad"' not in text for text in tags)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_opens_and_the_way_back_is_the_same(open_page: OpenPage, task: str) -> None:
    page = open_page()
    before = current(page)
    checked(page.segmented_control(key="task_choice").set_value(task).run())
    assert current(page)["task"] == task
    assert headline(page)
    checked(page.segmented_control(key="task_choice").set_value("full").run())
    assert current(page) == before


def test_an_edit_changes_the_bars_and_the_link(open_page: OpenPage) -> None:
    page = open_page()
    before = bar_sums(page)
    checked(page.number_input(key="training.sequence_length").set_value(8192).run())
    assert max(bar_sums(page)) > max(before) + 1
    opened, issues = decode(link_shown(page))
    assert opened is not None
    assert not issues
    assert opened.training.sequence_length == 8192


def test_fields_that_no_widget_shows_survive_an_edit(open_page: OpenPage) -> None:
    hidden = put_all(
        default_document(),
        {"name": "mine", "economics": {"power_usd_per_kwh": 0.2}, "training.dropout": 0.1},
    )
    page = open_page(s=link_of(hidden))
    checked(page.number_input(key="training.micro_batch").set_value(2).run())
    assert current(page) == put(hidden, "training.micro_batch", 2)


def test_apply_takes_the_change_over(open_page: OpenPage) -> None:
    page = open_page()
    checked(page.button(key="apply_0").click().run())
    assert current(page) != default_document()
    assert "short by" not in headline(page)


def test_a_row_can_be_added_and_taken_away(open_page: OpenPage) -> None:
    page = open_page(s=link_of(story_document("llama-7b-full-four-3090")))
    checked(page.button(key="add_row").click().run())
    assert [row["count"] for row in current(page)["hardware"]["devices"]] == [4, 1]
    checked(page.selectbox(key="hardware.devices.1.gpu").set_value("generic").run())
    assert current(page)["hardware"]["devices"][1]["gpu"] == "generic-24gb"
    checked(page.number_input(key="hardware.devices.1.size").set_value(31.5).run())
    assert current(page)["hardware"]["devices"][1]["memory_bytes"] == 31.5 * 2**30
    checked(page.button(key="remove_1").click().run())
    assert current(page)["hardware"]["devices"] == [{"gpu": "rtx-3090-24gb", "count": 4}]


def test_an_error_stands_at_its_field_and_the_last_chart_stays(open_page: OpenPage) -> None:
    page = open_page()
    before = bar_sums(page)
    checked(page.number_input(key="parallel.tensor").set_value(5).run())
    text = html(page)
    assert 'class="msg bad" role="alert"' in text
    assert "The answer below is the last one" in text
    assert bar_sums(page) == before
    assert page.get_by_key("stale") is not None
    checked(page.number_input(key="parallel.tensor").set_value(1).run())
    assert 'role="alert"' not in html(page)


@pytest.mark.parametrize("value", [0, -1, 10**7, 2**53 - 1])
@pytest.mark.parametrize("field", ["training.micro_batch", "training.sequence_length", "parallel.pipeline"])
def test_numbers_that_cannot_be_are_named_not_believed(open_page: OpenPage, field: str, value: int) -> None:
    page = open_page()
    before = bar_sums(page)
    checked(page.number_input(key=field).set_value(value).run())
    if field == "training.sequence_length" and value == 10**7:
        assert 'class="msg tight"' in html(page)  # the schema allows it, the model was not made for it
        return
    assert 'role="alert"' in html(page)
    assert bar_sums(page) == before


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e400", "-1"])
def test_a_number_that_is_none_is_left_out_of_a_file_and_named(value: str) -> None:
    raw = json.dumps(put(story_document(STORIES[1]), "hardware.margin_frac", 0.5)).replace(
        "0.5}", value + "}"
    )
    assert value in raw
    taken, issues = read_scenario_file(raw.encode())
    assert taken == story_document(STORIES[1])
    assert "hardware.margin_frac" in str(issues)


def test_no_cards_is_said_at_the_row(open_page: OpenPage) -> None:
    page = open_page()
    checked(page.number_input(key="hardware.devices.0.count").set_value(0).run())
    assert "Count, row 1: 0 given; allowed: whole number 1–100,000." in html(page)


def test_a_link_round_trips(open_page: OpenPage) -> None:
    document = put(story_document("llama-70b-qlora-one-a100"), "training.micro_batch", 3)
    page = open_page(s=link_of(document))
    assert current(page) == document
    assert page.number_input(key="training.micro_batch").value == 3


def test_an_empty_link_is_the_page_itself(open_page: OpenPage) -> None:
    page = open_page(s="")
    assert headline(page).startswith("GPU 5")
    assert 'class="note bad"' not in html(page)


@pytest.mark.parametrize("text", ["x", "1.", "1.AAAA", "99.AAAA", "1.%%%", "a" * 40_000])
def test_a_broken_link_is_told_and_the_page_works(open_page: OpenPage, text: str) -> None:
    page = open_page(s=text)
    assert headline(page).startswith("GPU 5")
    assert 'class="note bad"' in html(page)
    checked(page.number_input(key="training.micro_batch").set_value(2).run())
    assert 'class="note bad"' not in html(page)


def test_a_tampered_link_is_told(open_page: OpenPage) -> None:
    good = link_of(story_document(STORIES[1]))
    middle = len(good) // 2
    page = open_page(s=good[:middle] + ("A" if good[middle] != "A" else "B") + good[middle + 1 :])
    assert 'class="note bad"' in html(page)


def test_a_file_with_unknown_fields_is_taken_without_them() -> None:
    document = story_document(STORIES[1]) | {"colour": "red"}
    taken, issues = read_scenario_file(json.dumps(document).encode())
    assert taken == story_document(STORIES[1])
    assert [issue.code for issue in issues] == ["link_fields_dropped"]
    assert "colour" in str(issues[0].params)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"not json", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b"[" * 100_000, "not_json"),
        (b" " * 5_000_001, "text_too_long"),
        (b'{"version": 2}', "newer_version"),
        (b"[]", "wrong_type"),
        (b"{}", "missing_field"),
    ],
)
def test_a_file_that_is_no_scenario_says_why(raw: bytes, code: str) -> None:
    taken, issues = read_scenario_file(raw)
    assert taken is None
    assert code in {issue.code for issue in issues}


def test_the_address_bar_of_an_old_edit_is_not_taken_for_a_new_link(open_page: OpenPage) -> None:
    page = open_page()
    checked(page.number_input(key="training.micro_batch").set_value(2).run())
    late = link_shown(page)
    checked(page.number_input(key="training.micro_batch").set_value(3).run())
    page.query_params["s"] = late
    checked(page.number_input(key="training.micro_batch").set_value(4).run())
    assert current(page)["training"]["micro_batch"] == 4


def test_going_back_opens_the_earlier_question(open_page: OpenPage) -> None:
    page = open_page()
    checked(page.number_input(key="training.micro_batch").set_value(2).run())
    earlier = link_shown(page)
    checked(page.number_input(key="training.micro_batch").set_value(3).run())
    page.query_params["s"] = earlier
    checked(page.run())
    assert current(page)["training"]["micro_batch"] == 2
    assert page.number_input(key="training.micro_batch").value == 2


def test_what_a_user_wrote_is_shown_as_text(open_page: OpenPage) -> None:
    evil = "<img src=x onerror=alert(1)>"
    document = put(default_document(), "model", {"id": evil})
    page = open_page(s=link_of(document))
    assert "<img" not in html(page)
    assert "&lt;img src=x onerror=alert(1)&gt;" in html(page)


def test_an_evil_name_with_a_good_config_is_shown_as_text(open_page: OpenPage) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
    }
    document = put_all(
        story_document("llama-7b-full-four-3090"), {"model": {"id": "<b onclick=x>a/<i>b", "config": config}}
    )
    page = open_page(s=link_of(document))
    assert "&lt;i&gt;b" in html(page)
    assert "<i>b" not in html(page)


def test_documents_stay_as_they_were_given() -> None:
    for story in STORIES:
        scenario, issues = parse_scenario(story_document(story))
        assert scenario is not None, issues
        assert to_document(scenario) == story_document(story)
