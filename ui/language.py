"""Which language the page speaks (`?lang=`, else the browser's, else English), and which unit of sizes."""

from typing import Final

import streamlit as st

from ui.units import Unit, use
from ui.words import FALLBACK, Words, languages, words_for

_UNIT: Final = "size_unit"


def current_words() -> Words:
    """The words of the user's language. Puts the session's unit of sizes in force, too."""
    use(preferred_unit())
    asked = st.query_params.get("lang", "") or (st.context.locale or "")
    known = languages()
    for code in (asked, asked.partition("-")[0]):
        if code in known:
            return words_for(code)
    return words_for(FALLBACK)


def preferred_unit() -> Unit:
    """The unit this session wants sizes in; not part of the question, so no link carries it."""
    found: Unit = st.session_state.get(_UNIT, Unit.GIB)
    return found


def prefer_unit(unit: Unit) -> None:
    """Show sizes in this unit from the next run on."""
    st.session_state[_UNIT] = unit
