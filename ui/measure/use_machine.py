"""The button that fills in this machine's cards; where there are none it says why."""

from html import escape
from typing import Final

import streamlit as st

from ui.document import put
from ui.measure import machine, wording
from ui.state import edit
from ui.words import Words

_REFUSED: Final = "use_machine_refused"


def draw_use_machine(words: Words, key: str) -> None:
    """The button.

    Args:
        words: For its text.
        key: Its key; a button beginning with `quiet` is small.
    """
    quiet = key.startswith("quiet")
    st.button(
        words("measure.here.use"),
        key=key,
        type="tertiary" if quiet else "secondary",
        help=words("measure.here.use_help"),
        on_click=use_machine,
        args=(key,),
    )


def draw_why_not(words: Words, key: str) -> None:
    """Why the last press of this button filled nothing in; nothing where it did."""
    asked, code = st.session_state.get(_REFUSED, ("", ""))
    if asked == key and code:
        st.html(f'<div class="msg m" role="status">{escape(wording.reason(code, words))}</div>')


def use_machine(key: str) -> None:
    """Fill in the machine's cards, or keep why there are none."""
    cards = machine.look().cards
    rows = machine.hardware_rows(cards)
    st.session_state[_REFUSED] = (key, "" if rows else cards.reason or "no_device")
    if rows:
        edit(lambda document: put(document, machine.ROWS, rows))
