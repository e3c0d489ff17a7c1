"""Which language the page speaks: `?lang=` in the address, else the browser's, else English."""

import streamlit as st

from ui.words import FALLBACK, Words, languages, words_for


def current_words() -> Words:
    """The words of the user's language."""
    asked = st.query_params.get("lang", "") or (st.context.locale or "")
    known = languages()
    for code in (asked, asked.partition("-")[0]):
        if code in known:
            return words_for(code)
    return words_for(FALLBACK)
