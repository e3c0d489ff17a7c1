"""Widgets bound to one path of the document.

They have no limits of their own: a browser would reset a wrong number without a lasting word, and the planner
says what is allowed.
"""

from collections.abc import Sequence
from typing import Any, Final

import streamlit as st

from ui.document import Document, put
from ui.inputs.desk import Desk
from ui.state import Writer, bind
from ui.whole import FORMAT, shown, typed

RUNTIME_DEFAULT: Final = "default"


def number(desk: Desk, path: str, *, default: int, step: int = 1) -> None:
    """A whole number that the schema always has.

    Args:
        desk: The form.
        path: Where it lies in the document.
        default: What the schema takes where it is absent.
        step: Of the buttons.
    """

    def write(document: Document, value: Any) -> Document:
        return document if value is None else put(document, path, typed(value))

    current = shown(desk.get(path, default))
    st.number_input(
        desk.words(f"field.{path}.label"),
        step=float(step),
        format=FORMAT,
        key=bind(path, float(default) if current is None else current, write),
        help=_help(desk, path),
    )


def optional_number(desk: Desk, path: str, *, placeholder: str, step: int = 1) -> None:
    """A whole number that may be left empty; then the placeholder says what holds."""

    def write(document: Document, value: Any) -> Document:
        return put(document, path, typed(value))

    st.number_input(
        desk.words(f"field.{path}.label"),
        value=None,
        step=float(step),
        format=FORMAT,
        placeholder=placeholder,
        key=bind(path, shown(desk.get(path)), write),
        help=_help(desk, path),
    )


def optional_fraction(desk: Desk, path: str, *, placeholder: str) -> None:
    """A share of one that may be left empty."""
    share = desk.get(path)
    st.number_input(
        desk.words(f"field.{path}.label"),
        value=None,
        step=0.01,
        format="%.2f",
        placeholder=placeholder,
        key=bind(path, float(share) if isinstance(share, int | float) else None, writer(path)),
        help=_help(desk, path),
    )


def choice(desk: Desk, path: str, options: Sequence[str], *, group: str, default: str | None = None) -> None:
    """One of a list, or what the runtime takes.

    Args:
        desk: The form.
        path: Where it lies in the document.
        options: Ids of the schema.
        group: Labels are the words `group.<id>`.
        default: The schema's own default; without one the field may be absent, and then the runtime's value
            is named.
    """
    words = desk.words
    current = desk.get(path, default)
    listed = list(options) if default is not None else [RUNTIME_DEFAULT, *options]
    if isinstance(current, str) and current not in listed:
        listed.append(current)

    def name(option: str) -> str:
        if option != RUNTIME_DEFAULT:
            return worded(desk, group, option)
        filled = desk.default_value(path)
        return (
            words("field.runtime_default", value=worded(desk, group, filled))
            if filled
            else words("field.no_default")
        )

    def write(document: Document, value: Any) -> Document:
        return put(document, path, None if value == RUNTIME_DEFAULT else value)

    chosen = current if isinstance(current, str) else RUNTIME_DEFAULT
    st.selectbox(
        words(f"field.{path}.label"),
        listed,
        format_func=name,
        key=bind(path, chosen, write, listed),
        help=_help(desk, path),
    )


def flag(desk: Desk, path: str) -> None:
    """A switch; off takes the field out."""

    def write(document: Document, value: Any) -> Document:
        return put(document, path, True if value else None)

    on = bool(desk.get(path, False))
    st.toggle(desk.words(f"field.{path}.label"), key=bind(path, on, write), help=_help(desk, path))


def text(desk: Desk, path: str, *, placeholder: str) -> None:
    """A short text that may be left empty."""

    def write(document: Document, value: Any) -> Document:
        return put(document, path, value or None)

    current = desk.get(path)
    st.text_input(
        desk.words(f"field.{path}.label"),
        placeholder=placeholder,
        max_chars=200,
        key=bind(path, current if isinstance(current, str) else "", write),
    )


def writer(path: str) -> Writer:
    """Puts a value at a path; None takes the field out."""

    def write(document: Document, value: Any) -> Document:
        return put(document, path, value)

    return write


def worded(desk: Desk, group: str, option: str) -> str:
    """An id in words; an id that has none (a value only a link or a file can bring) as it is."""
    key = f"{group}.{option}"
    return desk.words(key) if desk.words.has(key) else option


def _help(desk: Desk, path: str) -> str | None:
    key = f"field.{path}.help"
    return desk.words(key) if desk.words.has(key) else None
