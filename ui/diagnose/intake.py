"""What was pasted or uploaded, read once and kept while other pages are open."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final

import streamlit as st

from planner.diagnose import Reading, read, read_whole
from planner.diagnose.scan import decoded
from planner.units import MIB
from ui.words import Words

MOST_MIB: Final = 50
LONGEST_PASTE: Final = 200_000
"""Characters; a longer text is read once and leaves the field, as the browser would send all of it on every run."""

TEXT: Final = "mono_message"
UPLOAD: Final = "message_upload"

_KEPT: Final = "diagnose_text"
_FILE: Final = "diagnose_file"
_SEEN: Final = "diagnose_seen"
_TIMES: Final = "diagnose_times"


@lru_cache(maxsize=1)
def example() -> str:
    """The message that the page opens with: it fits the question that the tool opens with."""
    return Path(__file__).with_name("example.txt").read_text(encoding="utf-8").strip()


@lru_cache(maxsize=16)
def _read(text: str) -> Reading:
    return read_whole(text)


def draw_intake(words: Words) -> tuple[Reading, bool]:
    """The field and the uploader.

    Returns:
        What was read, and whether it is the example.
    """
    _take_upload()
    _take_long_paste(words)
    name, reading = _opened()
    if reading is not None:
        with st.container(key="message_file", horizontal=True, vertical_alignment="center", gap="small"):
            st.html(f'<div class="p">{words.html("diagnose.file", name=name)}</div>', width="stretch")
            st.button(words("diagnose.close"), key="message_close", on_click=_close)
        return reading, False
    if TEXT not in st.session_state:
        st.session_state[TEXT] = st.session_state.get(_KEPT, example())
    text = st.text_area(words("diagnose.text"), key=TEXT, height=126)
    st.session_state[_KEPT] = text
    is_example = text.strip() == example()
    if is_example:
        st.html(f'<div class="p m">{words.html("diagnose.example")}</div>')
    with st.expander(words("diagnose.upload_title"), key="more_message_upload"):
        st.file_uploader(words("diagnose.upload", mib=MOST_MIB), key=_upload_key(), max_upload_size=MOST_MIB)
        if st.session_state.get(_SEEN) == "too_large":
            said = words.html("diagnose.too_large", mib=MOST_MIB)
            st.html(f'<div class="msg bad" role="alert">{said}</div>')
    return _read(text), is_example


def _upload_key() -> str:
    return f"{UPLOAD}_{st.session_state.get(_TIMES, 0)}"


def _opened() -> tuple[str, Reading | None]:
    found: tuple[str, Reading] | None = st.session_state.get(_FILE)
    return found if found is not None else ("", None)


def _close() -> None:
    st.session_state.pop(_FILE, None)


def _take_upload() -> None:
    """Read an upload of the last run, before anything is drawn."""
    upload = st.session_state.get(_upload_key())
    if upload is None:
        return
    if upload.size > MOST_MIB * MIB:
        st.session_state[_SEEN] = "too_large"
        return
    upload.seek(0)
    st.session_state[_FILE] = (str(upload.name), read(decoded(_blocks(upload))))
    st.session_state[_SEEN] = ""
    st.session_state[_TIMES] = st.session_state.get(_TIMES, 0) + 1


def _take_long_paste(words: Words) -> None:
    """A long text in the field is read once and then stands as if it were a file."""
    text = str(st.session_state.get(TEXT, ""))
    if len(text) > LONGEST_PASTE:
        st.session_state[_FILE] = (words("diagnose.pasted", n=f"{len(text):,}"), read_whole(text))
        st.session_state.pop(_KEPT, None)
        del st.session_state[TEXT]


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    while block := stream.read(MIB):
        yield block
