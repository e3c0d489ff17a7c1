"""A change that can be applied, with what it does to the plan: a row of Plan and of Diagnose."""

from typing import Final

import streamlit as st

from planner.plan_types import Verdict
from ui import verdict
from ui.changes import Outcome, note, what
from ui.numbers import DASH, signed_gib, signed_percent
from ui.state import load
from ui.words import Safe, Words, escaped

LEAST_TIME_FRAC: Final = 0.005


def fix_row(outcome: Outcome, words: Words, *, key: str, primary: bool) -> None:
    """Draw the row with its button.

    Args:
        outcome: The change and its plan.
        words: The language.
        key: Of the row on its page; the button's is `apply_` and the same.
        primary: Whether the button is the page's first choice.
    """
    change, found = outcome.change, outcome.plan.verdict
    kind, _ = verdict.TAG[found]
    left = outcome.plan.worst.headroom_bytes
    headroom = DASH if left is None else signed_gib(left)
    said = words(f"changes.{_result(found, grows=change.grows)}")
    result = words.html("changes.result", kind=kind, verdict=said, headroom=headroom)
    named = what(change, words)
    body = (
        f'<div class="fix"><span>{escaped(named)}</span>'
        f'<span class="n">{_delta(outcome, words)}</span>'
        f'<span class="s">{_note(outcome, words)}</span>'
        f'<span class="s r">{result}</span></div>'
    )
    with st.container(
        key=f"fixrow_{key}", horizontal=True, wrap=False, vertical_alignment="center", gap="small"
    ):
        st.html(body, width="stretch")
        st.button(
            words("changes.apply", what=named),
            key=f"apply_{key}",
            type="primary" if primary else "secondary",
            on_click=load,
            args=(change.document,),
        )


def _delta(outcome: Outcome, words: Words) -> Safe:
    """Change of the need; of a change of the engine's budget, what it may take more."""
    if outcome.change.budget:
        return words.html("changes.room", gib=signed_gib(outcome.gained_bytes))
    return words.html("changes.delta", gib=signed_gib(outcome.delta_bytes))


def _note(outcome: Outcome, words: Words) -> Safe:
    """What the change means, and what it costs or gains in time; on other cards in card time, too."""
    said = note(outcome.change, words)
    if outcome.time_frac is None:
        return words.html("changes.note_alone", note=said)
    if abs(outcome.time_frac) < LEAST_TIME_FRAC:
        return words.html("changes.same_time", note=said)
    time = signed_percent(outcome.time_frac)
    if outcome.card_time_frac is None or abs(outcome.card_time_frac - outcome.time_frac) < LEAST_TIME_FRAC:
        return words.html("changes.time", note=said, time=time)
    card_time = signed_percent(outcome.card_time_frac)
    return words.html("changes.card_time", note=said, time=time, card_time=card_time)


def _result(found: Verdict, *, grows: bool) -> str:
    return f"grown_{found.value}" if grows else found.value
