"""Training on preferences or rewards: the method, and what it needs beside the model."""

from typing import Any, Final

import streamlit as st

from ui.document import Document, put
from ui.inputs.desk import Desk
from ui.inputs.widgets import choice, optional_number
from ui.state import bind

METHODS: Final = ("dpo", "orpo", "kto", "grpo", "ppo")
REFERENCES: Final = ("copy", "shared", "none")
WRITES: Final = frozenset({"grpo", "ppo"})
NONE: Final = "none"
PATH: Final = "training.alignment"


def draw(desk: Desk) -> None:
    """The method first; its reference and its completions once there is one."""
    words, current = desk.words, desk.get(f"{PATH}.method")
    options = [NONE, *METHODS]
    shown = current if current in METHODS else NONE
    st.selectbox(
        words(f"field.{PATH}.method.label"),
        options,
        format_func=lambda option: words(f"alignment.{option}"),
        key=bind(f"{PATH}.method", shown, _write, options),
    )
    if shown == NONE:
        return
    choice(desk, f"{PATH}.reference", REFERENCES, group="reference_model")
    if shown in WRITES:
        optional_number(desk, f"{PATH}.generations", placeholder=words("field.no_default"))


def _write(document: Document, value: Any) -> Document:
    return put(document, PATH, None) if value == NONE else put(document, f"{PATH}.method", value)
