"""Which language the page speaks, and which unit of sizes; neither is part of the question, no link carries it.

The language is what `?lang=` or the switch said last in this session, else the browser's, else English.
"""

from typing import Final

import streamlit as st

from ui.units import Unit, use
from ui.words import FALLBACK, Words, languages, words_for

PARAM: Final = "lang"
_UNIT: Final = "size_unit"
_LANGUAGE: Final = "language"


def current_words() -> Words:
    """The words of the user's language. Puts the session's unit of sizes in force, too."""
    use(preferred_unit())
    return words_for(preferred_language())


def preferred_language() -> str:
    """The language of this session; the address bar counts once, because another page empties it."""
    asked = known_language(st.query_params.get(PARAM, ""))
    if asked:
        st.session_state[_LANGUAGE] = asked
    chosen: str = st.session_state.get(_LANGUAGE, "")
    return chosen or known_language(st.context.locale or "") or FALLBACK


def prefer_language(code: str) -> None:
    """Speak this language from the next run on, whatever the address bar asked for."""
    st.session_state[_LANGUAGE] = code
    st.query_params.pop(PARAM, None)


def known_language(tag: str) -> str:
    """The language there is words for, by a browser's tag: `zh` for zh-CN, zh-Hant-TW and ZH_tw; else empty."""
    code = tag.replace("_", "-").partition("-")[0].lower()
    return code if code in languages() else ""


def preferred_unit() -> Unit:
    """The unit this session wants sizes in."""
    found: Unit = st.session_state.get(_UNIT, Unit.GIB)
    return found


def prefer_unit(unit: Unit) -> None:
    """Show sizes in this unit from the next run on."""
    st.session_state[_UNIT] = unit
