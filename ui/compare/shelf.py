"""The saved list as a session sees it: the file of this machine, and what could not be written there."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import streamlit as st

from ui.document import Document
from ui.saved import (
    Change,
    Entries,
    Entry,
    SavedError,
    SavedFile,
    data_folder,
    new_entry,
    with_entry,
    with_name,
    without,
)

_SESSION: Final = "saved_session"
_PROBLEM: Final = "saved_problem"
_DELETED: Final = "saved_deleted"
_ASIDE: Final = "saved_set_aside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """The list with what is to be said about it.

    Attributes:
        entries: Newest first.
        folder: Where the file lies.
        session_ids: Entries that last for the session only.
        problem: Code and detail of what went wrong; words are `saved.problem.<code>`.
        deleted: The entry that was deleted last, to be put back.
        set_aside: Name of the file that holds what could not be read.
    """

    entries: Entries
    folder: Path
    session_ids: frozenset[str] = frozenset()
    problem: tuple[str, str] | None = None
    deleted: Entry | None = None
    set_aside: str | None = None

    def find(self, entry_id: str) -> Entry | None:
        """The entry of an id."""
        return next((entry for entry in self.entries if entry.id == entry_id), None)


def open_shelf() -> Shelf:
    """The list as it stands on this machine and in this session."""
    problem: tuple[str, str] | None = st.session_state.get(_PROBLEM)
    kept: Entries = ()
    try:
        reading = _file().read()
        kept = reading.entries
        _note_aside(reading.set_aside)
    except SavedError as error:
        problem = problem or (error.code, error.detail)
    own = _session()
    entries = tuple(sorted((*own, *kept), key=lambda entry: entry.saved_at, reverse=True))
    return Shelf(
        entries=entries,
        folder=_folder(),
        session_ids=frozenset(entry.id for entry in own),
        problem=problem,
        deleted=st.session_state.get(_DELETED),
        set_aside=st.session_state.get(_ASIDE),
    )


def save(name: str, document: Document) -> None:
    """Put the scenario on the list; in the session alone where the file cannot be written."""
    _put(new_entry(name, document))


def put_back() -> None:
    """Undo the last deletion."""
    entry: Entry | None = st.session_state.get(_DELETED)
    if entry is not None:
        _put(entry)


def rename(entry_id: str, name: str) -> None:
    """Call an entry something else."""
    _change(entry_id, lambda entries: with_name(entries, entry_id, name))


def delete(entry: Entry) -> None:
    """Take an entry off the list; `put_back` undoes it."""
    if _change(entry.id, lambda entries: without(entries, entry.id)):
        st.session_state[_DELETED] = entry


def _put(entry: Entry) -> None:
    _forget()
    try:
        _note_aside(_file().update(lambda entries: with_entry(entries, entry)).set_aside)
    except SavedError as error:
        st.session_state[_PROBLEM] = (error.code, error.detail)
        if error.code not in {"full", "too_large"}:
            _keep_in_session(lambda entries: with_entry(entries, entry))


def _change(entry_id: str, change: Change) -> bool:
    """Change an entry where it lies; whether that could be done."""
    _forget()
    if any(entry.id == entry_id for entry in _session()):
        return _keep_in_session(change)
    try:
        _note_aside(_file().update(change).set_aside)
    except SavedError as error:
        st.session_state[_PROBLEM] = (error.code, error.detail)
        return False
    return True


def _keep_in_session(change: Callable[[Entries], Entries]) -> bool:
    try:
        st.session_state[_SESSION] = change(_session())
    except SavedError as error:
        st.session_state[_PROBLEM] = (error.code, error.detail)
        return False
    return True


def _forget() -> None:
    """What was said about the last change is over."""
    for key in (_PROBLEM, _DELETED, _ASIDE):
        st.session_state.pop(key, None)


def _note_aside(name: str | None) -> None:
    if name is not None:
        st.session_state[_ASIDE] = name


def _session() -> Entries:
    found: Entries = st.session_state.get(_SESSION, ())
    return found


def _file() -> SavedFile:
    return SavedFile(_folder())


def _folder() -> Path:
    """Where the list lies; a user without a home gets a place that cannot be written, and is told."""
    try:
        home = Path.home()
    except RuntimeError:
        home = Path(os.devnull)
    return data_folder(os.environ, home=home)
