"""A model from its own files: a repository of the Hub, a folder or a file, read when the button is pressed."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import streamlit as st

from hardware_db.checkpoint import Checkpoint, CheckpointError, model_document, read_checkpoint
from hardware_db.checkpoint.tally import tally
from planner.issues import Issue
from ui.document import Document, put, put_all
from ui.inputs.chosen import with_model
from ui.inputs.config_errors import ISSUES, config_errors
from ui.inputs.desk import Desk
from ui.numbers import gib2
from ui.state import edit, stash
from ui.words import Safe, Words

STORED: Final = "model.stored"
AS_STORED: Final = ("serving.weights", "serving.expert_weights", "serving.weights_file_bytes")
"""Fields that a file answers itself."""
LONGEST: Final = 2_000
_SOURCE: Final = "checkpoint_source"
_OUTCOME: Final = "checkpoint_outcome"


@dataclass(frozen=True, slots=True)
class Taken:
    """A checkpoint that was read, and what keeps its config from being a model."""

    found: Checkpoint
    issues: tuple[Issue, ...] = ()


def draw(desk: Desk) -> None:
    """The field, its button, and what came of the last one."""
    words = desk.words
    with st.container(key="mono_source", width=420):
        st.text_input(
            words("checkpoint.label"),
            key=_SOURCE,
            placeholder=words("checkpoint.placeholder"),
            max_chars=LONGEST,
        )
    with st.container(width=420):
        st.html(f'<div class="p m">{words.html("checkpoint.note")}</div>')
        if st.button(words("checkpoint.read"), key="checkpoint_read"):
            with st.spinner(words("checkpoint.reading")):
                st.session_state[_OUTCOME] = take(str(st.session_state.get(_SOURCE) or ""))
            st.rerun()
        _outcome(desk, st.session_state.get(_OUTCOME))
    if desk.get(STORED) is not None:
        st.button(
            words("checkpoint.forget"),
            key="checkpoint_forget",
            type="tertiary",
            on_click=_forget,
        )


def take(text: str) -> Taken | CheckpointError:
    """Read a checkpoint and make it the model; one that no model can be described from changes nothing."""
    try:
        found = read_checkpoint(text)
    except CheckpointError as problem:
        return problem
    block = model_document(found, datetime.now(UTC).date().isoformat())
    issues = () if found.config is None else config_errors(dict(found.config))
    if not issues:
        st.session_state[ISSUES] = ()
        edit(lambda document: _with_model(document, block))
    return Taken(found, issues)


def _with_model(document: Document, block: dict[str, object]) -> Document:
    described = "config" in block
    document = with_model(document, block, stash()) if described else put(document, STORED, block["stored"])
    answered = "stored" in block and document.get("task") == "serve"
    return put_all(document, dict.fromkeys(AS_STORED)) if answered else document


def forget_refusal() -> None:
    """Leave out what the last file was refused for, once something else was brought in its place."""
    if isinstance(st.session_state.get(_OUTCOME), CheckpointError):
        st.session_state[_OUTCOME] = None


def _forget() -> None:
    st.session_state[_OUTCOME] = None
    edit(lambda document: put(document, STORED, None))


def _outcome(desk: Desk, outcome: Taken | CheckpointError | None) -> None:
    words = desk.words
    if isinstance(outcome, CheckpointError):
        text = words.html(f"checkpoint.refused.{outcome.code}", **outcome.params)
        st.html(f'<div class="msg bad" role="alert">{text}</div>')
    elif isinstance(outcome, Taken):
        for issue in outcome.issues:
            desk.say(issue)
        tone = "ok" if outcome.found.config is not None else "tight"
        st.html(f'<div class="msg {tone}">{told(outcome.found, words)}</div>')


def told(found: Checkpoint, words: Words) -> Safe:
    """Where it was read, how large it is, and its bytes by format."""
    if not found.files:
        return words.html("checkpoint.config_only", source=found.source)
    form = "taken" if found.config is not None else "sizes_only" if found.architecture else "no_config"
    sizes: dict[str, int] = {}
    for (_, kind, scales), size in tally(found).items():
        key = "" if scales else kind
        sizes[key] = sizes.get(key, 0) + size
    listed = words.listed(
        words("checkpoint.format", format=kind, gib=gib2(size))
        if kind
        else words("checkpoint.scales", gib=gib2(size))
        for kind, size in sorted(sizes.items(), key=lambda item: -item[1])
    )
    params: dict[str, str] = {
        "source": found.source,
        "files": words.count("checkpoint.files", found.files),
        "gib": gib2(sum(sizes.values())),
    }
    if form == "sizes_only":
        params["architecture"] = found.architecture
    return words.sentences((words.html(f"checkpoint.{form}", **params), listed))
