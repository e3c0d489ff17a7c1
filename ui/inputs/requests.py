"""The requests of a server: their lengths, what they begin with in common, and what drafts their answers."""

from typing import Any, Final

import streamlit as st

from ui.catalog import model_labels
from ui.document import Document, put, put_all
from ui.inputs.desk import Desk
from ui.inputs.groups import folded
from ui.inputs.widgets import optional_number
from ui.state import bind

LENGTHS: Final = ("workload.prompt_tokens", "workload.output_tokens", "workload.shared_prefix_tokens")
SPECULATIVE: Final = "serving.speculative"
DRAFT: Final = "serving.draft_model"
DRAFT_TOKENS: Final = "serving.draft_tokens"
NO_DRAFT: Final = "none"
DRAFTS: Final = (NO_DRAFT, "mtp", "draft")
"""An EAGLE-3 head has to be described by its config, which a file or a link can bring."""


def draw(desk: Desk) -> None:
    """A folded group; what drafts is asked for only where something drafts."""
    words = desk.words
    drafts = desk.get(SPECULATIVE)
    summary = (
        [words(f"speculative.{drafts}")]
        if isinstance(drafts, str) and words.has(f"speculative.{drafts}")
        else []
    )
    with folded(desk, "requests", summary, *LENGTHS, SPECULATIVE, DRAFT, DRAFT_TOKENS):
        for path in LENGTHS:
            optional_number(desk, path, placeholder=words("field.workload.not_told"), step=128)
        desk.messages(*LENGTHS)
        _drafts(desk)


def _drafts(desk: Desk) -> None:
    words = desk.words
    current = desk.get(SPECULATIVE, NO_DRAFT)
    options = [*DRAFTS, *([current] if current not in DRAFTS else [])]
    st.selectbox(
        words("field.serving.speculative.label"),
        options,
        format_func=lambda option: (
            words(f"speculative.{option}") if words.has(f"speculative.{option}") else option
        ),
        key=bind("speculative", current, _write_kind, options),
    )
    if current == "draft":
        _draft_model(desk)
    if current != NO_DRAFT:
        optional_number(desk, DRAFT_TOKENS, placeholder="1")
    desk.messages(SPECULATIVE, DRAFT, DRAFT_TOKENS)


def _draft_model(desk: Desk) -> None:
    labels = model_labels(desk.words.language)
    current = desk.get(f"{DRAFT}.id")
    options = [*([current] if isinstance(current, str) and current not in labels else []), *labels]
    st.selectbox(
        desk.words("field.serving.draft_model.label"),
        options,
        index=None,
        format_func=lambda option: labels.get(option, option),
        placeholder=desk.words("model.none"),
        key=bind("draft_model", current if isinstance(current, str) else None, _write_model, options),
    )


def _write_kind(document: Document, option: Any) -> Document:
    if option in {None, NO_DRAFT}:
        return put_all(document, dict.fromkeys((SPECULATIVE, DRAFT, DRAFT_TOKENS)))
    if option != "draft":
        document = put(document, DRAFT, None)
    return put(document, SPECULATIVE, option)


def _write_model(document: Document, option: Any) -> Document:
    return put(document, DRAFT, None if option is None else {"id": option})
