"""Prices fetched on request as a session sees them: the last refresh of this machine, and what went wrong."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import streamlit as st

from hardware_db.refresh import (
    FILE_NAME,
    SOURCES,
    Getter,
    Refresh,
    Source,
    StoreError,
    Web,
    load,
    merged,
    refresh,
    save,
)
from ui.answers import tables
from ui.cost.quotes import Quote, quotes
from ui.saved import data_folder

_FOUND: Final = "prices_refreshed"
_PROBLEM: Final = "prices_problem"
_LOOKED: Final = "prices_looked"

network: Callable[[], Getter] = Web
"""What reads addresses; tests put something else here."""


def refreshed() -> Refresh | None:
    """The refresh of this session, else the last one of this machine; None where there is none."""
    if not st.session_state.get(_LOOKED):
        st.session_state[_LOOKED] = True
        try:
            st.session_state[_FOUND] = load(_folder())
        except StoreError as problem:
            st.session_state[_PROBLEM] = problem.code
    found: Refresh | None = st.session_state.get(_FOUND)
    return found


def refreshed_quotes() -> tuple[Quote, ...]:
    """Its prices, each with its own date and source."""
    found = refreshed()
    return () if found is None else quotes(found.offers)


def problem_code() -> str:
    """`not_writable` or `not_readable`; empty where the file is as it should be."""
    code: str = st.session_state.get(_PROBLEM, "")
    return code


def fetch(source_ids: Iterable[str], on_start: Callable[[Source], None] | None = None) -> Refresh:
    """Ask sources now, and keep what they hold; what was fetched before stays where nothing newer came.

    Args:
        source_ids: Which of `SOURCES`.
        on_start: Called before each.
    """
    wanted = set(source_ids)
    chosen = [source for source in SOURCES if source.id in wanted]
    found = merged(refreshed(), refresh(chosen, tables().offers, get=network(), on_start=on_start))
    st.session_state[_LOOKED], st.session_state[_FOUND] = True, found
    _keep(found)
    return found


def forget() -> None:
    """Go back to the shipped table alone."""
    st.session_state[_FOUND] = None
    try:
        (_folder() / FILE_NAME).unlink(missing_ok=True)
    except OSError:
        st.session_state[_PROBLEM] = "not_writable"
    else:
        st.session_state.pop(_PROBLEM, None)


def _keep(found: Refresh) -> None:
    try:
        save(_folder(), found)
    except StoreError as problem:
        st.session_state[_PROBLEM] = problem.code
    else:
        st.session_state.pop(_PROBLEM, None)


def _folder() -> Path:
    return data_folder(os.environ, home=Path.home())
