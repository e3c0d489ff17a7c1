"""What is wrong with the open question, where a page has no field to say it at."""

import streamlit as st

from planner.issues import Severity
from ui import parts
from ui.issue_words import issue_html
from ui.pages.frame import Frame
from ui.state import link_issues
from ui.words import Safe


def draw_problems(frame: Frame) -> None:
    """Errors that keep the last answer, and what of a link could not be read."""
    words = frame.words
    opened = link_issues()
    if opened:
        tone = "bad" if any(issue.severity is Severity.ERROR for issue in opened) else "tight"
        st.html(parts.note(tone, Safe("<br>".join(issue_html(issue, words) for issue in opened))))
    errors = frame.desk.answer.errors
    if errors:
        items = parts.bullets(issue_html(issue, words) for issue in errors)
        head = words.html("stale.note" if frame.plan is not None else "stale.mend")
        st.html(parts.note("bad", Safe(f'<span role="alert">{head}</span>{items}')))
