"""A model read from its own files on the page: taken with its sizes, or refused with a reason."""

from __future__ import annotations

import json
from string import Formatter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import save_file

from hardware_db.checkpoint.found import CODES
from planner.cli.model import REFUSED
from tests.hardware_db.checkpoint.written import write_gguf
from tests.ui.conftest import checked, headline, html
from tests.ui.test_config import GOOD
from ui.examples import default_document, story_document
from ui.words import words_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlit.testing.v1 import AppTest

    OpenPage = Callable[..., AppTest]


def read(page: AppTest, text: str) -> AppTest:
    page.text_input(key="checkpoint_source").set_value(text).run()
    return checked(page.button(key="checkpoint_read").click().run())


def test_a_folder_becomes_the_model_with_its_sizes(open_page: OpenPage, tmp_path: Path) -> None:
    save_file({"model.embed_tokens.weight": np.zeros((64, 8), np.float16)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(GOOD), encoding="utf-8")
    page = read(open_page(), str(tmp_path))
    model = page.session_state["scenario_document"]["model"]
    assert model["config"] == GOOD
    assert model["stored"]["parts"] == [{"part": "embedding", "format": "fp16", "bytes": 1024}]
    assert f"{tmp_path.name}: 1 file, 0.00 GiB." in html(page)
    assert "the files hold 512 parameters" in html(page)
    assert headline(page)
    page = checked(page.button(key="checkpoint_forget").click().run())
    assert "stored" not in page.session_state["scenario_document"]["model"]


def test_a_config_alone_becomes_the_model(open_page: OpenPage, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(GOOD), encoding="utf-8")
    page = read(open_page(), str(tmp_path))
    assert page.session_state["scenario_document"]["model"] == {"config": GOOD}
    assert "from its config.json alone" in html(page)


def test_a_file_answers_for_the_format(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page()
    asked = story_document("llama-70b-awq-two-l40s")
    page.session_state["scenario_document"] = asked | {"runtime": {"name": "llama_cpp"}, "parallel": {}}
    page = read(page.run(), str(write_gguf(tmp_path / "a.gguf")))
    document = page.session_state["scenario_document"]
    assert "weights" not in document["serving"]
    assert document["model"]["stored"]["weights"] == "q4_k_m"


def test_what_cannot_be_read_leaves_the_question(open_page: OpenPage, tmp_path: Path) -> None:
    page = read(open_page(), str(tmp_path / "<b>nowhere"))
    assert "there is no such folder or file" in html(page)
    assert "<b>nowhere" not in html(page)
    assert page.session_state["scenario_document"] == default_document()


def test_a_refusal_goes_once_something_else_was_brought(open_page: OpenPage, tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF")
    page = read(open_page(), str(tmp_path / "bad.gguf"))
    assert "bad.gguf: its header is damaged" in html(page)
    page = checked(page.text_area(key="config_text").set_value(json.dumps(GOOD)).run())
    assert "bad.gguf" not in html(page)
    assert "Used as the model." in html(page)


def test_a_config_without_a_model_is_refused_at_its_field(open_page: OpenPage, tmp_path: Path) -> None:
    save_file({"a": np.zeros(4, np.float16)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": -1}', encoding="utf-8")
    page = read(open_page(), str(tmp_path))
    assert "hidden_size: -1 given" in html(page)
    assert page.session_state["scenario_document"] == default_document()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_refusal_has_its_sentence(language: str) -> None:
    words = words_for(language)
    for code, names in CODES.items():
        given = dict.fromkeys(names, "?")
        assert words(f"checkpoint.refused.{code}", **given)
        assert {name for _, name, _, _ in Formatter().parse(REFUSED[code]) if name} <= set(names)
    assert REFUSED.keys() == CODES.keys()
