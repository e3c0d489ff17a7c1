"""The adapter of a LoRA or QLoRA run."""

from typing import Any, Final

import streamlit as st

from ui.document import Document, put
from ui.inputs.desk import Desk
from ui.inputs.widgets import choice, number
from ui.state import bind

METHODS: Final = ("lora", "dora", "rslora", "ia3", "prefix", "prompt", "p_tuning", "vera", "adalora")
PLAIN_BASES: Final = ("fp32", "bf16", "fp16")
QUANTIZED: Final = ("nf4", "nf4_dq", "int8", "gptq4", "gptq8")
ATTENTION_TARGETS: Final = ("q_proj", "k_proj", "v_proj", "o_proj")
ALL_LINEAR: Final = "all_linear"
ATTENTION: Final = "attention"
OWN: Final = "own"


def draw(desk: Desk) -> None:
    """Method, rank, what it is attached to, and the format of the frozen base."""
    left, right = st.columns(2, gap="small", wrap=False)
    with left:
        choice(desk, "adapter.method", METHODS, group="adapter", default="lora")
    with right:
        number(desk, "adapter.rank", default=8)
    desk.messages("adapter.method", "adapter.rank")
    left, right = st.columns(2, gap="small", wrap=False)
    with left:
        _targets(desk)
    with right:
        choice(desk, "adapter.base", QUANTIZED if desk.task == "qlora" else PLAIN_BASES, group="format")
    desk.messages("adapter")


def _targets(desk: Desk) -> None:
    words = desk.words
    targets = desk.get("adapter.targets")
    if targets == ALL_LINEAR:
        current = ALL_LINEAR
    elif isinstance(targets, list) and targets == list(ATTENTION_TARGETS):
        current = ATTENTION
    else:
        current = OWN
    options = [ALL_LINEAR, ATTENTION, *([OWN] if current == OWN else [])]

    def name(option: str) -> str:
        if option != OWN:
            return words(f"targets.{option}")
        return ", ".join(map(str, targets)) if isinstance(targets, list) else words("field.no_default")

    st.selectbox(
        words("field.adapter.targets.label"),
        options,
        format_func=name,
        key=bind("adapter.targets", current, _write, options),
    )


def _write(document: Document, option: Any) -> Document:
    if option == OWN:
        return document
    return put(document, "adapter.targets", ALL_LINEAR if option == ALL_LINEAR else list(ATTENTION_TARGETS))
