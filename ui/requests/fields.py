"""Inputs of the section: some are the scenario's own, the others live in the session only."""

from typing import Any, Final

import streamlit as st

from ui.document import get, put
from ui.state import document, edit
from ui.whole import FORMAT, shown, typed
from ui.words import Words

_OWN: Final = "requests_own"
_EDITED: Final = "requests_edited"
WIDTH_PX: Final = 154
"""Of a field: two of them side by side on a phone."""


def was_edited() -> bool:
    """Whether the scenario was changed here since the last run, asked once."""
    return bool(st.session_state.pop(_EDITED, False))


def write(path: str, value: Any) -> None:
    """Put a value into the scenario; the page is drawn again for it."""
    edit(lambda old: put(old, path, value))
    st.session_state[_EDITED] = True


def own(name: str, default: Any = None) -> Any:
    """A value of the session that no scenario has."""
    return st.session_state.setdefault(_OWN, {}).get(name, default)


def whole_of(words: Words, path: str, default: int, *, step: int = 1) -> int:
    """A whole number of the scenario; the default where it has none."""
    found = shown(get(document(), path))
    return int(_scenario_number(words, path, default if found is None else found, step, FORMAT))


def real_of(words: Words, path: str, default: float, *, step: float = 0.1, format_: str = "%.2f") -> float:
    """A number of the scenario; the default where it has none."""
    found = get(document(), path)
    value = float(found) if isinstance(found, int | float) else default
    return float(_scenario_number(words, path, value, step, format_))


def own_number(words: Words, name: str, default: float | None, *, step: float, format_: str) -> float | None:
    """A number of the session; None where it may stay empty and is."""
    key = f"requests_own_{name}"
    st.session_state[key] = own(name, default)

    def keep() -> None:
        st.session_state.setdefault(_OWN, {})[name] = st.session_state[key]

    st.number_input(
        words(f"requests.own.{name}"),
        value=None,
        step=step,
        format=format_,
        placeholder=words("requests.unknown"),
        key=key,
        on_change=keep,
        width=WIDTH_PX,
    )
    value = own(name, default)
    return None if value is None else float(value)


def own_choice(words: Words, name: str, options: tuple[str, ...]) -> str:
    """One of a few, kept in the session."""
    key = f"requests_own_{name}"
    st.session_state[key] = own(name, options[0])

    def keep() -> None:
        st.session_state.setdefault(_OWN, {})[name] = st.session_state[key]

    st.selectbox(
        words(f"requests.own.{name}"),
        options,
        format_func=lambda option: words(f"requests.{name}.{option}"),
        key=key,
        on_change=keep,
        width=WIDTH_PX,
    )
    return str(own(name, options[0]))


def _scenario_number(words: Words, path: str, value: float, step: float, format_: str) -> float:
    key = f"requests_doc_{path}"
    st.session_state[key] = float(value)

    def keep() -> None:
        if st.session_state[key] is not None:
            write(path, typed(st.session_state[key]) if format_ == FORMAT else st.session_state[key])

    st.number_input(
        words(f"requests.field.{path.rpartition('.')[2]}"),
        step=float(step),
        format=format_,
        key=key,
        on_change=keep,
        width=WIDTH_PX,
    )
    return value
