"""A menu whose labels change between two runs: the browser then sends a label that is no option any more."""

from typing import Any

import pytest
import streamlit as st

from ui import state


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A session state that is a plain dictionary."""
    session: dict[str, Any] = {}
    monkeypatch.setattr(st, "session_state", session)
    return session


def write(document: dict[str, Any], value: Any) -> dict[str, Any]:
    return {**document, "chosen": value}


def test_an_old_label_is_no_edit(kept: dict[str, Any]) -> None:
    state.bind("menu", "default", write, ["default", "bf16", "fp8"])
    kept["menu"] = "bf16 (default)"
    assert state._collected({}) == {}
    assert kept["menu"] == "default"


def test_an_option_is_an_edit(kept: dict[str, Any]) -> None:
    state.bind("menu", "default", write, ["default", "bf16", "fp8"])
    kept["menu"] = "fp8"
    assert state._collected({}) == {"chosen": "fp8"}


def test_a_field_without_options_takes_any_text(kept: dict[str, Any]) -> None:
    state.bind("text", "", write)
    kept["text"] = "0.19.0"
    assert state._collected({}) == {"chosen": "0.19.0"}
