"""The model: from the catalogue, from its own files, or from a config.json."""

import re
from typing import Any, Final

import streamlit as st

from planner.issues import Issue
from ui.bring import POPOVER_PX
from ui.catalog import model_labels
from ui.counts import short_count
from ui.document import Document
from ui.inputs import checkpoint
from ui.inputs.chosen import with_model
from ui.inputs.config_errors import ISSUES, config_errors
from ui.inputs.desk import Desk
from ui.inputs.pictures import draw_beforehand
from ui.pictures import pipeline_labels
from ui.state import bind, edit, stash
from ui.uploads import MOST_MIB, read_config

OWN_CONFIG: Final = "config"
LABEL: Final = re.compile(r"[,:]\s|[\uff0c\uff1a]")
"""What labels of the menu have between their parts, and no id has."""
LONGEST: Final = 200


def draw(desk: Desk) -> None:
    """A searchable menu of the catalogue, and a place to bring a model of one's own."""
    words = desk.words
    labels = {**model_labels(words.language), **pipeline_labels(words.language)}
    own = desk.get("model.config") is not None
    current = OWN_CONFIG if own else desk.get("model.id")
    options = ([OWN_CONFIG] if own else []) + list(labels)
    if isinstance(current, str) and current not in options:
        options.insert(0, current)

    st.selectbox(
        words("field.model.label"),
        options,
        index=0 if isinstance(current, str) else None,
        format_func=lambda option: _own_label(desk) if option == OWN_CONFIG else labels.get(option, option),
        placeholder=words("model.none"),
        accept_new_options=True,
        key=bind("model_choice", current if isinstance(current, str) else None, taken),
    )
    desk.messages("model")
    with (
        st.container(key="quiet_config"),
        st.popover(words("model.bring"), type="tertiary", key="config_popover"),
        st.container(width=POPOVER_PX),
    ):
        _bring(desk)
    draw_beforehand(desk)


def _bring(desk: Desk) -> None:
    words = desk.words
    checkpoint.draw(desk)
    with st.container(key="mono_config"):
        st.text_area(
            words("model.paste"),
            key="config_text",
            height=180,
            placeholder=words("model.paste_example"),
            on_change=lambda: _take(st.session_state["config_text"]),
        )
    st.file_uploader(words("model.upload"), key="config_file", on_change=_take_file, max_upload_size=MOST_MIB)
    issues: tuple[Issue, ...] = st.session_state.get(ISSUES, ())
    for issue in issues:
        desk.say(issue)
    if not issues and desk.get("model.config") is not None:
        st.html(f'<div class="msg ok">{words.html("model.taken")}</div>')


def _take_file() -> None:
    upload = st.session_state["config_file"]
    if upload is not None:
        _take(upload.getvalue())


def _take(text: str | bytes) -> None:
    """Use a config if a model can be described from it; else keep the question and say why."""
    if not text.strip():
        st.session_state[ISSUES] = ()
        return
    config, issues = read_config(text)
    if config is not None:
        issues = config_errors(config)
    st.session_state[ISSUES] = issues
    checkpoint.forget_refusal()
    if config is not None and not issues:
        edit(lambda document: with_model(document, {"config": config}, stash()))


def _own_label(desk: Desk) -> str:
    model_type = desk.get("model.config.model_type") or desk.get("model.config._class_name", "")
    source = desk.get("model.stored.source") or desk.get("model.id")
    if source and desk.good is not None and desk.answer.plan is desk.good:
        count = short_count(desk.good.model.params_total, desk.words)
        return desk.words("model.own_source", source=source, count=count)
    if desk.good is not None and desk.answer.plan is desk.good:
        return desk.words(
            "model.own", type=model_type, count=short_count(desk.good.model.params_total, desk.words)
        )
    return desk.words("model.own_uncounted", type=model_type)


def taken(document: Document, option: Any) -> Document:
    """Take what was chosen, or an id that was typed; an old label, which a browser may still send, is neither."""
    given = str(option or "").strip()[:LONGEST]
    if not given or given == OWN_CONFIG or LABEL.search(given):
        return document
    return with_model(document, {"id": given}, stash())
