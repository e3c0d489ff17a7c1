"""The one document of a session: where it comes from, how widgets edit it, how it gets into the address bar.

Widgets are controlled: each shows a value read from the document, and what differs from the shown value when
a run starts is an edit. So the question is built once a run, before anything is drawn, and fields that no
widget shows survive.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

import streamlit as st

from planner.issues import Issue, ScenarioError
from planner.link import decode, encode
from planner.scenario import to_document
from planner.validation import parse_scenario
from ui.document import Document, canonical
from ui.examples import default_document

Writer = Callable[[Document, Any], Document]

PARAM: Final = "s"
REMEMBERED_LINKS: Final = 50
DEFAULT: Final = ""
"""Stands for the link of the default question, which needs no parameter."""

_DOCUMENT: Final = "scenario_document"
_SHOWN: Final = "scenario_shown"
_OFFERED: Final = "scenario_offered"
_SEEN: Final = "link_seen"
_ENCODED: Final = "link_encoded"
_WRITTEN: Final = "links_written"
_LINK_ISSUES: Final = "link_issues"
_TOUCHED: Final = "scenario_touched"
_STASH: Final = "scenario_stash"
_PAGE: Final = "page_open"
_MOVED: Final = "page_changed"


def document() -> Document:
    """The question as it stands."""
    if _DOCUMENT not in st.session_state:
        st.session_state[_DOCUMENT] = default_document()
    found: Document = st.session_state[_DOCUMENT]
    return found


def load(new: Document) -> None:
    """Replace the question: a preset, a file, an applied change. Widgets follow by themselves."""
    st.session_state[_DOCUMENT] = new
    st.session_state[_TOUCHED] = True
    st.session_state[_LINK_ISSUES] = ()


def was_replaced() -> bool:
    """Whether a callback has replaced the question and the page has not been drawn for it yet.

    A button of a fragment has only the fragment drawn again: one that loads a question asks this first and then
    has the whole page drawn.
    """
    return bool(st.session_state.get(_TOUCHED, False))


def edit(change: Callable[[Document], Document]) -> None:
    """Change the question from a callback, after what was typed at the same moment."""
    load(change(_collected(document())))


def stash() -> dict[str, Any]:
    """Blocks put aside while a task has no use for them."""
    found: dict[str, Any] = st.session_state.setdefault(_STASH, {})
    return found


def bind(key: str, value: Any, write: Writer, options: Collection[Any] | None = None) -> str:
    """Make the widget of `key` show a value of the document.

    Args:
        key: The widget's key.
        value: What it shows.
        write: Returns the document with a new value of the widget put in.
        options: What a menu offers. Once the label of the chosen option has changed, the browser sends the old
            label, which is no option: it is not an edit and is dropped.

    Returns:
        The key, to be handed to the widget.
    """
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    st.session_state.setdefault(_SHOWN, {})[key] = (value, write)
    st.session_state.setdefault(_OFFERED, {})[key] = options
    return key


def enter_page(name: str) -> None:
    """Say which page is about to be drawn: going to another one empties the address bar, not the question."""
    if st.session_state.get(_PAGE, name) != name:
        st.session_state[_MOVED] = True
    st.session_state[_PAGE] = name


def begin_run() -> Document:
    """Take in edits and the address bar, and write the link; called before anything is drawn."""
    before = document()
    after = _collected(before)
    edited = canonical(after) != canonical(before) or bool(st.session_state.pop(_TOUCHED, False))
    st.session_state[_DOCUMENT] = after
    if edited:
        st.session_state[_LINK_ISSUES] = ()
    moved = bool(st.session_state.pop(_MOVED, False))
    if moved:
        _forget_widgets()
    _follow_address_bar(edited=edited, moved=moved)
    _write_address_bar()
    return document()


def link_issues() -> tuple[Issue, ...]:
    """What was wrong with the link that was opened."""
    found: tuple[Issue, ...] = st.session_state.get(_LINK_ISSUES, ())
    return found


def link_text() -> str:
    """The link parameter of the question as last written; empty for the default question."""
    found: str = st.session_state.get(_ENCODED, DEFAULT)
    return found


def _collected(base: Document) -> Document:
    shown: dict[str, tuple[Any, Writer]] = st.session_state.get(_SHOWN, {})
    for key, (value, write) in list(shown.items()):
        if key in st.session_state and st.session_state[key] != value:
            new = st.session_state[key]
            options = st.session_state.get(_OFFERED, {}).get(key)
            if options is not None and new is not None and new not in options:
                st.session_state[key] = value
                continue
            base = write(base, new)
            shown[key] = (new, write)
    return base


def _forget_widgets() -> None:
    """Have every widget take its value from the document again: on another page it is another widget."""
    for key in st.session_state.get(_SHOWN, {}):
        st.session_state.pop(key, None)


def _follow_address_bar(*, edited: bool, moved: bool) -> None:
    """Open the link in the address bar unless it is one of ours that an edit has overtaken."""
    given = st.query_params.get(PARAM) or None
    if moved and given in (None, st.session_state.get(_SEEN)):
        st.session_state[_SEEN], st.session_state[_ENCODED] = None, DEFAULT
        return
    if given == st.session_state.get(_SEEN):
        return
    written: list[str | None] = st.session_state.setdefault(_WRITTEN, [None])
    if edited and given in written:
        return
    st.session_state[_SEEN] = given
    if given is None:
        st.session_state[_DOCUMENT], st.session_state[_LINK_ISSUES] = default_document(), ()
        st.session_state[_ENCODED] = DEFAULT
        return
    scenario, issues = decode(given)
    st.session_state[_LINK_ISSUES] = issues
    if scenario is not None:
        st.session_state[_DOCUMENT] = to_document(scenario)
        st.session_state[_ENCODED] = _encoded(document()) or DEFAULT


def _write_address_bar() -> None:
    text = _encoded(document())
    if text is None or text == st.session_state.get(_ENCODED, DEFAULT):
        return
    seen = text or None
    st.session_state[_ENCODED], st.session_state[_SEEN] = text, seen
    written: list[str | None] = st.session_state.setdefault(_WRITTEN, [None])
    written.append(seen)
    del written[1:-REMEMBERED_LINKS]
    if seen is None:
        st.query_params.pop(PARAM, None)
    else:
        st.query_params[PARAM] = seen


def _encoded(current: Document) -> str | None:
    """Link text, empty for the default question, None where there can be no link."""
    if canonical(current) == canonical(default_document()):
        return DEFAULT
    scenario, _ = parse_scenario(current)
    if scenario is None:
        return None
    try:
        return encode(scenario)
    except ScenarioError:
        return None
