"""Which scenarios stand beside the open one: a change to it, a saved one, a story, one brought along."""

from collections.abc import Callable
from typing import Any, Final

import streamlit as st

from planner.issues import Issue, Severity
from planner.link import decode
from planner.scenario import to_document
from ui.changes import Outcome, what
from ui.compare.shelf import Shelf
from ui.compare.sides import Side, side
from ui.document import Document
from ui.examples import STORIES, story_document
from ui.issue_words import issue_html
from ui.state import edit
from ui.uploads import MOST_MIB, read_scenario_file
from ui.words import Words

LETTERS: Final = ("B", "C")
NONE: Final = "none"
KEPT: Final = "kept"
BROUGHT: Final = "brought"


class Chooser:
    """What can be chosen in this run, and what is.

    Args:
        document: The open scenario.
        found: Single changes to it with their plans, best first.
        shelf: The saved list.
        words: The words of the user's language.
    """

    def __init__(self, document: Document, found: tuple[Outcome, ...], shelf: Shelf, words: Words) -> None:
        self._document = document
        self._changes = {f"change:{outcome.change.name}": outcome.change for outcome in found}
        self._shelf = shelf
        self._words = words

    def options(self, letter: str) -> list[str]:
        """Ids of all there is to choose."""
        kept = [KEPT] if _documents().get((letter, KEPT)) is not None else []
        saved = [f"saved:{entry.id}" for entry in self._shelf.entries]
        return [NONE, *kept, *self._changes, *saved, *(f"story:{story}" for story in STORIES), BROUGHT]

    def chosen(self, letter: str) -> str:
        """What is chosen; before anything was, the first changes that the open scenario suggests."""
        given = st.session_state.get(_choice_key(letter))
        if isinstance(given, str):
            return given if given in self.options(letter) else NONE
        same_job = sorted(self._changes, key=lambda option: self._changes[option].other_job)
        suggested = [*same_job, NONE, NONE]
        return suggested[LETTERS.index(letter)]

    def is_gone(self, letter: str) -> bool:
        """Whether what was chosen is no longer there."""
        given = st.session_state.get(_choice_key(letter))
        return isinstance(given, str) and given not in self.options(letter)

    def side(self, letter: str) -> Side | None:
        """What stands there, with its answer; None where nothing does."""
        option = self.chosen(letter)
        document = self._document_of(letter, option)
        return None if document is None else side(letter, self._name(letter, option), document)

    def label(self, option: str) -> str:
        """What an option is called in the menu."""
        kind, _, name = option.partition(":")
        words = self._words
        if kind == "change":
            return words("compare.choose.change", what=what(self._changes[option], words))
        if kind == "saved":
            entry = self._shelf.find(name)
            return words("compare.choose.saved", name=entry.name if entry is not None else name)
        if kind == "story":
            return words("compare.choose.story", name=words(f"story.{name}.name"))
        return words(f"compare.choose.{kind}")

    def _name(self, letter: str, option: str) -> str:
        kind, _, name = option.partition(":")
        words = self._words
        entry = self._shelf.find(name) if kind == "saved" else None
        if entry is not None:
            return entry.name
        if kind == "story":
            return words(f"story.{name}.name")
        if kind == "change":
            return what(self._changes[option], words)
        document = _documents().get((letter, option)) or {}
        given = document.get("name")
        return given if isinstance(given, str) and given else words(f"compare.{kind}_name")

    def _document_of(self, letter: str, option: str) -> Document | None:
        kind, _, name = option.partition(":")
        if kind == "change":
            return self._changes[option].document
        if kind == "story":
            return story_document(name)
        if kind == "saved":
            entry = self._shelf.find(name)
            return None if entry is None else entry.document
        return _documents().get((letter, option))


def draw_chooser(chooser: Chooser, words: Words) -> None:
    """A menu under each cell of the strip, and buttons that move scenarios between them."""
    with st.container(key="compare_choose"):
        first, *others = st.columns(3, gap="small")
    with first:
        st.html(f'<div class="p m">{words.html("compare.choose.a")}</div>')
        with st.container(horizontal=True, gap="small", key="quiet_keep"):
            for letter in LETTERS:
                st.button(
                    words("compare.choose.keep", letter=letter),
                    key=f"keep_{letter}",
                    type="tertiary",
                    help=words("compare.choose.keep_help", letter=letter),
                    on_click=_keep,
                    args=(letter,),
                )
    for letter, column in zip(LETTERS, others, strict=True):
        with column:
            _menu(letter, chooser, words)


def choose(letter: str, option: str) -> None:
    """Let an option stand at a letter."""
    st.session_state[_choice_key(letter)] = option


def _menu(letter: str, chooser: Chooser, words: Words) -> None:
    key = f"compare_menu_{letter}"
    current = chooser.chosen(letter)
    if st.session_state.get(key) != current:
        st.session_state[key] = current
    with st.container(
        horizontal=True, wrap=False, vertical_alignment="bottom", gap="xsmall", key=f"pick_{letter}"
    ):
        st.selectbox(
            words("compare.choose.label", letter=letter),
            chooser.options(letter),
            format_func=chooser.label,
            key=key,
            on_change=_chosen,
            args=(letter,),
        )
        shown = chooser.side(letter)
        st.button(
            words("compare.choose.swap"),
            key=f"swap_{letter}",
            help=words("compare.choose.swap_help", letter=letter),
            disabled=shown is None,
            on_click=_swap,
            args=(letter, shown.document if shown is not None else {}),
        )
    if chooser.is_gone(letter):
        st.html(f'<div class="msg tight">{words.html("compare.choose.gone", letter=letter)}</div>')
    if current == BROUGHT:
        _bring(letter, words)


def _bring(letter: str, words: Words) -> None:
    """A link to paste or a file to upload."""
    st.text_input(
        words("compare.choose.link", letter=letter),
        key=f"compare_link_{letter}",
        help=words("compare.choose.link_help"),
        on_change=_take,
        args=(letter, f"compare_link_{letter}", read_link),
    )
    st.file_uploader(
        words("compare.choose.file"),
        key=f"compare_file_{letter}",
        max_upload_size=MOST_MIB,
        on_change=_take,
        args=(letter, f"compare_file_{letter}", lambda upload: read_scenario_file(upload.getvalue())),
    )
    issues: tuple[Issue, ...] = st.session_state.get(f"compare_issues_{letter}", ())
    for issue in issues:
        tone = "bad" if issue.severity is Severity.ERROR else "tight"
        st.html(f'<div class="msg {tone}" role="alert">{issue_html(issue, words)}</div>')


def read_link(text: str) -> tuple[Document | None, tuple[Issue, ...]]:
    """The document of a link, given as a whole address or as its parameter alone."""
    _, found, tail = text.strip().partition("?s=")
    if not found:
        _, found, tail = text.strip().partition("&s=")
    scenario, issues = decode((tail if found else text.strip()).partition("&")[0].partition("#")[0])
    return (None if scenario is None else to_document(scenario)), issues


def _take(letter: str, key: str, read: Callable[[Any], tuple[Document | None, tuple[Issue, ...]]]) -> None:
    given = st.session_state[key]
    if not given:
        return
    document, issues = read(given)
    st.session_state[f"compare_issues_{letter}"] = issues
    if document is not None:
        _documents()[letter, BROUGHT] = document


def _chosen(letter: str) -> None:
    choose(letter, st.session_state[f"compare_menu_{letter}"])


def _keep(letter: str) -> None:
    """Hold the open scenario, what was typed at the same moment included."""

    def hold(current: Document) -> Document:
        _documents()[letter, KEPT] = current
        return current

    edit(hold)
    choose(letter, KEPT)


def _swap(letter: str, document: Document) -> None:
    def change(current: Document) -> Document:
        _documents()[letter, KEPT] = current
        return document

    edit(change)
    choose(letter, KEPT)


def _documents() -> dict[tuple[str, str], Document]:
    """Scenarios that are held for a letter: kept from A, or brought along."""
    found: dict[tuple[str, str], Document] = st.session_state.setdefault("compare_documents", {})
    return found


def _choice_key(letter: str) -> str:
    return f"compare_choice_{letter}"
