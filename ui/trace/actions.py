"""What the buttons of the section do: start, stop, show an earlier answer, put it away."""

from typing import Final

import streamlit as st

from profiler.documents import Options
from profiler.host_memory import available_bytes
from profiler.registry import Busy
from profiler.runner import Job
from ui.document import Document, canonical
from ui.measure.actions import LIMIT_SHARE
from ui.measure.jobs import Run, this_session
from ui.state import load
from ui.trace import jobs as running
from ui.trace.question import Question

TIMEOUT_S: Final = 600.0

_WANTED: Final = "trace_wanted"
_LAST: Final = "trace_last"
_EARLIER: Final = "trace_earlier"
_WAITING: Final = "trace_waiting"


def start(question: Question, *, every_layer: bool = False) -> None:
    """Show the answer to a question, tracing it first unless its trace is kept.

    Args:
        question: What to trace.
        every_layer: Run the whole model, where short ones would do: to see that it comes to the same.
    """
    st.session_state[_WANTED] = True
    st.session_state.pop(_EARLIER, None)
    if running.kept(question, full=every_layer) is not None:
        return
    free = available_bytes()
    limit = None if free is None else max(1, int(free * LIMIT_SHARE))
    options = question.asked.options.model_copy(
        update={"timeout_s": TIMEOUT_S, "memory_limit_bytes": limit, "instant": not every_layer}
    )

    def begin() -> Job:
        return running.runner().start(question.asked.scenario, question.asked.config, options)

    def describe(job: Job) -> Run:
        return Run(
            job=job,
            session=this_session(),
            address=st.context.ip_address or "",
            document=question.document,
            asked=question.document,
            options=Options(timeout_s=TIMEOUT_S, memory_limit_bytes=limit),
        )

    st.session_state[_LAST] = question.document
    begun = running.jobs().start(running.SLOT, begin, describe)
    st.session_state[_WAITING] = question.key if isinstance(begun, Busy) else ""


def stop(run: Run) -> None:
    """Ask a trace to end."""
    run.job.stop()


def is_waiting(question: Question) -> bool:
    """Whether this question was to be traced and another trace was running."""
    return bool(st.session_state.get(_WAITING) == question.key)


def is_wanted() -> bool:
    """Whether this session has asked for a trace and not put it away."""
    return bool(st.session_state.get(_WANTED, False))


def close() -> None:
    """Put everything of the section away."""
    for name in (_WANTED, _LAST, _EARLIER, _WAITING):
        st.session_state.pop(name, None)


def remember(document: Document) -> None:
    """Keep which question was answered last."""
    st.session_state[_LAST] = document


def last() -> Document | None:
    """The question that was answered last, None for none."""
    found: Document | None = st.session_state.get(_LAST)
    return found


def show_earlier(document: Document) -> None:
    """Look at the answer to an earlier question."""
    st.session_state[_EARLIER] = canonical(document)


def hide_earlier() -> None:
    """Look at the open question again."""
    st.session_state.pop(_EARLIER, None)


def is_earlier_shown(document: Document) -> bool:
    """Whether the answer to this earlier question is looked at."""
    return bool(st.session_state.get(_EARLIER) == canonical(document))


def put_left(document: Document) -> None:
    """Make an earlier question the open one."""
    load(document)
