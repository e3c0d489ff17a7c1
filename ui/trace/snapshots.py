"""Opening a memory file: the uploader, the text to paste, what was opened, and why something could not be."""

from typing import Final

import streamlit as st

from planner.units import MIB
from profiler.snapshot import MemoryFile, MemoryFileError
from profiler.snapshot.apart import read_apart
from profiler.snapshot.plain import MAX_FILE_BYTES
from ui import parts
from ui.numbers import whole
from ui.words import Safe, Words

UPLOAD: Final = "snapshot_upload"
TEXT: Final = "mono_snapshot_text"
MOST_MIB: Final = MAX_FILE_BYTES // MIB

FACTS: Final = ("name", "detail", "given", "allowed", "seconds", "offset", "begins_with")
"""What sentences of refusals name."""

_OPENED: Final = "snapshot_opened"
_NAME: Final = "snapshot_name"
_PROBLEM: Final = "snapshot_problem"
_SEEN: Final = "snapshot_seen"
_TIMES: Final = "snapshot_times"


def opened() -> MemoryFile | None:
    """The memory file that is looked at."""
    found: MemoryFile | None = st.session_state.get(_OPENED)
    return found


def name() -> str:
    """Its file's name, empty for pasted text."""
    return str(st.session_state.get(_NAME, ""))


def close() -> None:
    """Put it away."""
    for key in (_OPENED, _NAME, _PROBLEM, _SEEN):
        st.session_state.pop(key, None)


def draw_open(words: Words) -> None:
    """An uploader, a field to paste into, and why the last file could not be read."""
    st.html(parts.section(words("snapshot.open.title"), words("snapshot.open.note")))
    upload = st.file_uploader(
        words("snapshot.open.upload", mib=MOST_MIB),
        key=f"{UPLOAD}_{st.session_state.get(_TIMES, 0)}",
        max_upload_size=MOST_MIB,
    )
    if upload is not None and st.session_state.get(_SEEN) != upload.file_id:
        st.session_state[_SEEN] = upload.file_id
        with st.spinner(words("snapshot.open.reading")):
            _take(upload.getvalue(), upload.name)
    with st.expander(words("snapshot.open.paste"), key="more_snapshot_text"):
        st.text_area(
            words("snapshot.open.text"),
            key=TEXT,
            height=120,
            placeholder=words("snapshot.open.example"),
            label_visibility="collapsed",
        )
        if st.button(words("snapshot.open.read"), key="snapshot_read"):
            with st.spinner(words("snapshot.open.reading")):
                _take(str(st.session_state.get(TEXT, "")).encode(), "")
    problem: MemoryFileError | None = st.session_state.get(_PROBLEM)
    if problem is not None:
        st.html(f'<div class="msg bad" role="alert">{problem_text(problem, words)}</div>')


def _take(data: bytes, name_: str) -> None:
    """Read it in a child and draw the page again, or keep why it cannot be read."""
    st.session_state.pop(_PROBLEM, None)
    try:
        st.session_state[_OPENED] = read_apart(data)
    except MemoryFileError as problem:
        st.session_state[_PROBLEM] = problem
        return
    st.session_state[_NAME] = name_
    st.session_state[_TIMES] = st.session_state.get(_TIMES, 0) + 1
    st.rerun()


def problem_text(problem: MemoryFileError, words: Words) -> Safe:
    """Why a file could not be read, and where in it."""
    key = f"snapshot.problem.{problem.code}"
    params = {name_: _written(value) for name_, value in problem.params.items()}
    allowed = problem.params.get("allowed_bytes")
    facts = dict.fromkeys(FACTS, "") | params
    facts["mib"] = whole(allowed / MIB) if isinstance(allowed, int) else whole(MOST_MIB)
    if not words.has(key):
        return words.html("snapshot.problem.other", code=problem.code)
    said = words.html(key, **facts)
    return (
        said
        if not problem.field
        else words.sentences([said, words.html("snapshot.problem.at", field=problem.field)])
    )


def _written(value: object) -> str:
    return whole(value) if type(value) is int else str(value)
