"""One model chosen after another: what the first one set by itself goes back with the next."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from planner.link import encode
from planner.validation import parse_scenario
from tests.ui.conftest import checked, headline
from ui.answers import answer
from ui.document import Document, get, put
from ui.inputs.chosen import settled, with_model
from ui.pictures import TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

SDXL = "stabilityai/stable-diffusion-xl-base-1.0"
FLUX = "black-forest-labs/FLUX.1-dev"
QWEN = "Qwen/Qwen3-8B"
SEES = "Qwen/Qwen3-VL-8B-Instruct"
BERT = "google-bert/bert-base-uncased"
WHISPER = "openai/whisper-large-v3"
VIT = "google/vit-base-patch16-224"
CLIP = "openai/clip-vit-base-patch32"
DEEPSEEK = "deepseek-ai/DeepSeek-V3"
IMAGES = {"images": 2, "image_pixels": 768 * 768, "tower": "frozen"}


def asked(model_id: str = QWEN, **training: Any) -> Document:
    return {
        "version": 1,
        "task": "lora",
        "model": {"id": model_id},
        "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 2}]},
        "runtime": {"name": "hf_trainer"},
        "parallel": {"tensor": 2},
        "training": {"micro_batch": 1, "sequence_length": 4096, **training},
        "adapter": {"rank": 16, "targets": ["q_proj", "v_proj"]},
    }


def chain(document: Document, *model_ids: str) -> Document:
    aside: dict[str, Any] = {}
    for model_id in model_ids:
        document = with_model(document, {"id": model_id}, aside)
    return document


def opened(open_page: Callable[..., AppTest], document: Document) -> AppTest:
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return open_page(s=encode(scenario))


def choose(page: AppTest, *model_ids: str) -> Document:
    for model_id in model_ids:
        page.selectbox(key="model_choice").set_value(model_id)
        checked(page.run())
    found: Document = json.loads(json.dumps(page.session_state["scenario_document"]))
    return found


@pytest.mark.parametrize("model_id", [SEES, WHISPER])
def test_the_page_answers_after_a_pipeline(open_page: Callable[..., AppTest], model_id: str) -> None:
    page = opened(open_page, put(asked(), "parallel", None))
    there = choose(page, SDXL)
    assert get(there, "adapter.targets") == TARGETS
    assert get(there, "training.sequence_length") != 4096
    back = choose(page, model_id)
    assert get(back, "adapter.targets") == ["q_proj", "v_proj"]
    assert get(back, "training.sequence_length") <= 4096
    assert not answer(back).errors
    assert headline(page)


def test_the_page_answers_after_a_model_that_sees(open_page: Callable[..., AppTest]) -> None:
    page = opened(open_page, put(asked(SEES, **IMAGES), "parallel", None))
    blind = choose(page, BERT)
    assert not set(IMAGES) & set(blind["training"])
    assert not answer(blind).errors
    assert headline(page)


@pytest.mark.parametrize(
    "between", [(SDXL,), (SDXL, FLUX), (BERT,), (BERT, SDXL), (SDXL, BERT), (DEEPSEEK, SDXL)]
)
def test_the_way_back_leads_to_the_question_it_began_with(between: tuple[str, ...]) -> None:
    found = chain(asked(), *between, QWEN)
    kept = put(found, "adapter.targets", None) if DEEPSEEK in between else found
    assert kept == (put(asked(), "adapter.targets", None) if DEEPSEEK in between else asked())


@pytest.mark.parametrize(("model_id", "tokens"), [(VIT, 197), (CLIP, 77), (WHISPER, 1500)])
def test_a_model_with_its_own_number_of_tokens_shows_what_is_planned(model_id: str, tokens: int) -> None:
    document = put({**asked(), "task": "full"}, "adapter", None)
    document = put(document, "parallel", None)
    aside: dict[str, Any] = {}
    there = with_model(document, {"id": model_id}, aside)
    assert get(there, "training.sequence_length") == tokens
    assert not [issue for issue in answer(there).issues if issue.field == "training.sequence_length"]
    assert with_model(there, {"id": QWEN}, aside) == document


def test_what_was_changed_meanwhile_stays_and_other_hardware_is_not_divided_as_the_old() -> None:
    aside: dict[str, Any] = {}
    there = with_model(asked(), {"id": SDXL}, aside)
    there = put(there, "adapter.targets", "all_linear")
    there = put(there, "training.sequence_length", 1024)
    back = with_model(there, {"id": QWEN}, dict(aside))
    assert get(back, "adapter.targets") == "all_linear"
    assert (get(back, "training.sequence_length"), get(back, "parallel")) == (4096, {"tensor": 2})
    other = with_model(put(there, "hardware.devices.0.count", 3), {"id": QWEN}, aside)
    assert get(other, "parallel") is None
    assert get(other, "training.sequence_length") == 4096


def test_a_pipeline_that_a_link_opened_leaves_no_size_of_a_picture_behind() -> None:
    there = with_model(asked(), {"id": SDXL}, {})
    back = with_model(there, {"id": QWEN}, {})
    assert get(back, "training.sequence_length") is None
    assert get(back, "adapter.targets") == "all_linear"
    served = put({**there, "task": "serve", "serving": {"max_model_len": 16384}}, "adapter", None)
    assert get(with_model(served, {"id": QWEN}, {}), "serving.max_model_len") == 8192


@pytest.mark.parametrize("targets", [["q_proj", "v_proj"], ["to_q"], None])
def test_targets_that_a_model_has_none_of_become_every_matrix(targets: list[str] | None) -> None:
    found = chain(put(asked(), "adapter.targets", targets), DEEPSEEK)
    assert get(found, "adapter.targets") == "all_linear"
    assert not answer(found).errors


def test_pictures_stay_where_they_are_seen_and_get_a_size_where_one_is_needed() -> None:
    document = asked(SEES, images=2)
    assert get(settled(document), "training.image_pixels") == 768 * 768
    sized = asked(SEES, **IMAGES)
    assert settled(sized) == sized


def test_a_model_that_nobody_knows_changes_only_the_name() -> None:
    assert chain(asked(), "nobody/knows") == {**asked(), "model": {"id": "nobody/knows"}}


@pytest.mark.parametrize(
    ("model_id", "label", "shown"),
    [(SDXL, "Side, pixels", 1024), ("genmo/mochi-1-preview", "Clip, tokens", 4352), (VIT, "Sequence", 197)],
)
def test_a_size_that_is_left_out_is_shown_as_planned(
    open_page: Callable[..., AppTest], model_id: str, label: str, shown: int
) -> None:
    task = "full" if model_id == VIT else "serve"
    page = opened(
        open_page,
        {
            "version": 1,
            "task": task,
            "model": {"id": model_id},
            "hardware": {"devices": [{"gpu": "h100-sxm-80gb"}]},
            "runtime": {"name": "generic"},
        },
    )
    assert [box.value for box in page.number_input if box.label == label] == [shown]
