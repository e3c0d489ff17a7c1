"""A change that can be applied, with what it does to the plan: a row of Plan and of Diagnose."""

import streamlit as st

from planner.plan_types import Verdict
from ui import verdict
from ui.changes import Outcome
from ui.numbers import DASH, signed_gib
from ui.state import load
from ui.words import Words


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
    body = (
        f'<div class="fix"><span>{words.html(f"change.{change.name}.what", **change.params)}</span>'
        f'<span class="n">{words.html("changes.delta", gib=signed_gib(outcome.delta_bytes))}</span>'
        f'<span class="s">{words.html(f"change.{change.name}.note", **change.params)}</span>'
        f'<span class="s r">{result}</span></div>'
    )
    with st.container(
        key=f"fixrow_{key}", horizontal=True, wrap=False, vertical_alignment="center", gap="small"
    ):
        st.html(body, width="stretch")
        st.button(
            words("changes.apply", what=words(f"change.{change.name}.what", **change.params)),
            key=f"apply_{key}",
            type="primary" if primary else "secondary",
            on_click=load,
            args=(change.document,),
        )


def _result(found: Verdict, *, grows: bool) -> str:
    return f"grown_{found.value}" if grows else found.value
