"""A config of another program brought in as the question: pasted or uploaded, with what of it was not understood."""

from typing import Final

import streamlit as st

from planner.imports import FORMATS, Imported, ImportRefusedError, Remark, import_text
from planner.validation import parse_scenario
from ui import parts
from ui.answers import tables
from ui.document import Document
from ui.issue_words import issue_html
from ui.numbers import DASH
from ui.state import edit
from ui.uploads import MOST_MIB
from ui.words import Safe, Words

MOST_REMARKS: Final = 12
MOST_OWN: Final = 24
POPOVER_PX: Final = 420
_FOUND: Final = "import_found"
_TEXT: Final = "import_text"
_FILE: Final = "import_file"


def draw_bring(words: Words) -> None:
    """A popover with a place to paste, an upload, and what came of the last one."""
    with (
        st.container(key="quiet_import"),
        st.popover(words("import.label"), type="tertiary", key="import_popover"),
        st.container(width=POPOVER_PX),
    ):
        st.html(f'<div class="p m">{words.html("import.note")}</div>')
        with st.container(key="mono_import"):
            st.text_area(
                words("import.paste"),
                key=_TEXT,
                height=180,
                placeholder=words("import.example"),
                on_change=lambda: _take(st.session_state[_TEXT]),
            )
        st.file_uploader(
            words("import.upload"),
            key=_FILE,
            on_change=_take_file,
            max_upload_size=MOST_MIB,
        )
        found = st.session_state.get(_FOUND)
        if found is not None:
            outcome(found, words)


def _take_file() -> None:
    upload = st.session_state[_FILE]
    if upload is not None:
        _take(upload.getvalue().decode("utf-8-sig", errors="replace"))


def _take(text: str) -> None:
    """Read the text onto the question; one that is no question afterwards changes nothing and says why."""
    if not text.strip():
        st.session_state[_FOUND] = None
        return

    def change(document: Document) -> Document:
        try:
            found = import_text(text, document, models=tables().models)
        except ImportRefusedError as problem:
            st.session_state[_FOUND] = problem
            return document
        scenario, issues = parse_scenario(found.document)
        st.session_state[_FOUND] = found if scenario is not None else issues
        return document if scenario is None else found.document

    edit(change)


def outcome(found: object, words: Words) -> None:
    """What came of a text: taken over with remarks, or refused."""
    if isinstance(found, ImportRefusedError):
        params = {name: DASH if value is None else value for name, value in found.params.items()}
        if found.code in {"format_unknown", "format_unsure"}:
            params["allowed"] = words.listed([words(f"import.source.{name}") for name in FORMATS])
        text = words.html(f"import.refused.{found.code}", **params)
        st.html(f'<div class="msg bad" role="alert">{text}</div>')
    elif isinstance(found, Imported):
        st.html(f'<div class="msg ok">{taken(found, words)}</div>')
        if found.trouble:
            st.html(f'<div class="msg tight">{trouble(found, words)}</div>')
        if found.own:
            st.html(f'<div class="p m">{own(found, words)}</div>')
        quiet = [remark.key for remark in found.remarks if remark.reason == "no_memory"]
        if quiet:
            st.html(f'<div class="p m">{words.html("import.quiet", keys=words.listed(quiet))}</div>')
    elif isinstance(found, tuple):
        for issue in found:
            st.html(f'<div class="msg bad" role="alert">{issue_html(issue, words)}</div>')


def taken(found: Imported, words: Words) -> Safe:
    """Which program it was for, and how many fields it decided."""
    source = words(f"import.source.{found.source}")
    return Safe(
        words.html("import.taken", source=source, fields=words.count("import.fields", len(found.taken)))
    )


def own(found: Imported, words: Words) -> Safe:
    """Fields that now have the program's own value, with what they had before."""
    changed = [
        f"{path}: {_given(before, words)} → {_given(now, words)}"
        for path, before, now in found.own[:MOST_OWN]
    ]
    more = len(found.own) - MOST_OWN
    rest = words.html("import.more", n=more) if more > 0 else ""
    return Safe(f"{words.html('import.own', fields=words.listed(changed))}{rest}")


def _given(value: object, words: Words) -> str:
    return words("import.not_given") if value is None else str(value)


def trouble(found: Imported, words: Words) -> Safe:
    """Every key that needs a look, the first dozen of them."""
    items = parts.bullets(remark(one, words) for one in found.trouble[:MOST_REMARKS])
    more = len(found.trouble) - MOST_REMARKS
    rest = words.html("import.more", n=more) if more > 0 else ""
    return Safe(f"{words.html('import.trouble')}{items}{rest}")


def remark(one: Remark, words: Words) -> Safe:
    """One key, its value and what is said of it."""
    params = {name: value for name, value in one.params if value is not None and value != ""}
    form = one.reason
    if form in {"unknown", "auto"} and not params:
        form = f"{form}_bare"
    given = {name: "" for name, _ in one.params} | params
    return words.html(f"import.reason.{form}", key=one.key, value=one.value, **given)
