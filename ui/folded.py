"""Sections that are closed until somebody opens them, and are not worked out before."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ui.words import Words


def folded(name: str, words: Words) -> DeltaGenerator | None:
    """The box of a section, for a fragment to draw into.

    Args:
        name: Where its words are; `<name>.title` stands on it. Its key, too.
        words: The words of the user's language.

    Returns:
        The box; None while it is closed.
    """
    box = st.expander(words(f"{name}.title"), key=name, on_change="rerun")
    return box if box.open else None
