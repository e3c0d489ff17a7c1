"""Pictures that a language model sees, in the form of the Plan page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.plan_types import Plan, Verdict
from tests.ui.conftest import checked, html
from ui.answers import answer
from ui.changes import outcomes
from ui.limits import largest_sequence
from ui.verdict import why
from ui.words import words_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

SEES = "Qwen/Qwen3-VL-4B-Instruct"
IMAGES, PIXELS = "training.images", "training.image_pixels"


def document(**training: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "task": "full",
        "model": {"id": SEES},
        "hardware": {"devices": [{"gpu": "h100-sxm-80gb"}]},
        "training": {"sequence_length": 4096, **training},
    }


def planned(**training: Any) -> Plan:
    plan = answer(document(**training)).plan
    assert plan is not None
    return plan


def test_the_form_asks_for_pictures_only_where_they_are_seen(open_page: Callable[..., AppTest]) -> None:
    page = open_page()
    keys = {field.key for field in page.number_input}
    assert IMAGES not in keys
    page.selectbox(key="model_choice").set_value(SEES)
    checked(page.run())
    assert IMAGES in {field.key for field in page.number_input}
    page.number_input(key=IMAGES).set_value(2.0)
    checked(page.run())
    training = page.session_state["scenario_document"]["training"]
    assert (training["images"], training["image_pixels"]) == (2, 768 * 768)
    assert "576" in html(page)
    page.number_input(key=IMAGES).set_value(None)
    checked(page.run())
    assert {"images", "image_pixels"} & set(page.session_state["scenario_document"]["training"]) == set()


def test_the_statement_says_how_many_tokens_are_pictures_or_that_none_are_counted() -> None:
    words = words_for("en")
    with_pictures = str(why(planned(images=2, image_pixels=768 * 768), (), None, words))
    assert "4,096 tokens of a sequence 1,152 are pictures" in with_pictures
    assert "That is for text" not in with_pictures
    assert "That is for text" in str(why(planned(), (), None, words))


def test_pictures_without_a_size_or_beyond_the_sequence_are_named_with_their_field() -> None:
    for training, code, field in (
        ({"images": 1}, "image_pixels_missing", PIXELS),
        ({"images": 50, "image_pixels": 768 * 768}, "images_beyond_sequence", IMAGES),
    ):
        issues = {(issue.code, issue.field) for issue in answer(document(**training)).errors}
        assert (code, field) in issues
    text = {**document(images=1), "model": {"id": "Qwen/Qwen3-8B"}}
    assert ("images_without_tower", IMAGES) in {(x.code, x.field) for x in answer(text).errors}


def test_the_longest_sequence_is_sought_where_the_pictures_leave_room_for_text() -> None:
    lora = {"task": "lora", "adapter": {"method": "lora", "rank": 16, "alpha": 32, "targets": "all_linear"}}
    asked = {**document(images=2, image_pixels=1 << 20), **lora}
    plan = answer(asked).plan
    assert plan is not None
    assert plan.verdict is Verdict.FITS
    assert largest_sequence(asked, plan) >= 4096
    assert "half_sequence" not in {outcome.change.name for outcome in outcomes(asked, plan)}


def test_pictures_that_fill_the_whole_sequence_leave_no_text() -> None:
    filled = answer(document(images=4, image_pixels=1 << 20)).errors
    assert ("images_beyond_sequence", IMAGES) in {(issue.code, issue.field) for issue in filled}
