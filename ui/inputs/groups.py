"""A folded group of the form: its name, what is set in it, and whether something in it is wrong."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import streamlit as st

from ui.inputs.desk import Desk


@contextmanager
def folded(desk: Desk, name: str, summary: Sequence[str], *fields: str) -> Iterator[None]:
    """An expander that says what is set inside, and opens by itself when a field in it stops the plan.

    Args:
        desk: The form.
        name: Words are `group.<name>`.
        summary: What is set, a few words each; empty for nothing.
        *fields: Paths of the document that it holds.
    """
    words = desk.words
    wrong = desk.has_error(*fields)
    title = words("group.with_summary", name=words(f"group.{name}"), summary=words.listed(summary))
    label = words("group.wrong", title=title) if wrong else title
    with st.expander(
        label if summary else words(f"group.{name}"), key=f"group_{name}", type="compact", expanded=wrong
    ):
        yield
