"""A config.json that is pasted: taken when a model can be described from it, else refused at its field."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import charts, checked, headline, html
from ui.examples import default_document
from ui.inputs import model as model_input
from ui.uploads import read_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

    OpenPage = Callable[..., AppTest]

GOOD: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 2048,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "intermediate_size": 5632,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
}


def paste(page: AppTest, text: str) -> AppTest:
    return checked(page.text_area(key="config_text").set_value(text).run())


def test_a_good_config_becomes_the_model(open_page: OpenPage) -> None:
    page = paste(open_page(), json.dumps(GOOD))
    assert page.session_state["scenario_document"]["model"] == {"config": GOOD}
    assert "your llama model" in html(page)
    assert headline(page)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hidden_size = 4096", "not JSON; the first mistake is at line 1, column 1"),
        ('{"model_type": "llama",\n "hidden_size": }', "not JSON; the first mistake is at line 2"),
        ("[1, 2]", "allowed: object"),
        ("{}", "model_type is missing"),
        (json.dumps({"model_type": "llama", "hidden_size": 64}), "is missing; a llama model needs it"),
        (json.dumps(GOOD | {"hidden_size": -1}), "hidden_size: -1 given"),
        (json.dumps(GOOD | {"hidden_size": 10**15}), "hidden_size: 1000000000000000 given"),
        (json.dumps(GOOD | {"num_hidden_layers": "many"}), "num_hidden_layers: &#x27;many&#x27; given"),
        (json.dumps(GOOD | {"vocab_size": float("nan")}), "nan given; a finite number is needed"),
        (json.dumps(GOOD | {"model_type": "<b>llamma</b>"}), "is not modelled"),
        ("{" + " " * 5_000_001 + "}", "characters; allowed"),
    ],
)
def test_a_bad_config_is_refused_at_its_field_and_the_question_stays(
    open_page: OpenPage, text: str, said: str
) -> None:
    page = paste(open_page(), text)
    assert said in html(page)
    assert 'class="msg bad" role="alert"' in html(page)
    assert "<b>llamma" not in html(page)
    assert page.session_state["scenario_document"] == default_document()
    assert "gpu_bars" in charts(page)


def test_a_mistake_put_right_is_forgotten(open_page: OpenPage) -> None:
    page = paste(open_page(), "{")
    assert 'class="msg bad"' in html(page)
    assert 'class="msg bad"' not in html(paste(page, json.dumps(GOOD)))


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00", b"\x80abc"])
def test_bytes_that_are_no_text_are_no_config(raw: bytes) -> None:
    config, issues = read_config(raw)
    assert config is None
    assert [issue.code for issue in issues] == ["not_json"]


def test_a_byte_order_mark_does_no_harm() -> None:
    config, issues = read_config(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())
    assert config == GOOD
    assert issues == ()


def test_an_id_can_be_typed_and_an_old_label_is_none(open_page: OpenPage) -> None:
    page = open_page()
    document = page.session_state["scenario_document"]
    assert model_input.taken(document, "Llama-3.1-8B, 8.03 B, dense") is document
    assert model_input.taken(document, "Your config.json: llama") is document
    assert model_input.taken(document, " ") is document
    assert model_input.taken(document, " my own model ")["model"] == {"id": "my own model"}
    assert model_input.taken(document, "llama3.1:8b")["model"] == {"id": "llama3.1:8b"}
