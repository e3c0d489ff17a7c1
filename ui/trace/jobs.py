"""The traces of this server: one runs at a time, and those used last are kept for everybody."""

from typing import Final

import streamlit as st

from profiler.runner import Patience
from profiler.trace.cache import TraceCache
from profiler.trace.record import Trace
from profiler.trace.runner import TraceRunner
from ui.measure.jobs import ABANDON_AFTER_S, Jobs, is_connected
from ui.trace.question import Question
from ui.trace.result import Results

SLOT: Final = "trace"
"""Stands where a measurement has its device."""

MOST_TRACES: Final = 12
"""A trace of a large model takes tens of megabytes."""


@st.cache_resource(show_spinner=False)
def jobs() -> Jobs:
    """The tracing jobs of this server, shared by all sessions."""
    return Jobs(is_connected)


@st.cache_resource(show_spinner=False)
def traces() -> TraceCache:
    """The traces used last, shared by all sessions."""
    return TraceCache(MOST_TRACES)


@st.cache_resource(show_spinner=False)
def results() -> Results:
    """What was made of them, shared by all sessions."""
    return Results()


def kept(question: Question, *, full: bool = False) -> Trace | None:
    """The trace of a question, that of every layer first; None if neither is kept.

    Args:
        question: The question.
        full: Whether only a trace of every layer will do.
    """
    found = traces().get(question.full_key)
    return found if found is not None or full else traces().get(question.key)


def keep(question: Question, trace: Trace) -> None:
    """Keep a trace; where instant mode had to run every layer, it stands for both."""
    instant = trace.instant
    if instant is None or not instant.layers:
        traces().put(question.full_key, trace)
    else:
        traces().put(question.key, trace)


def runner() -> TraceRunner:
    """Starts the child that traces."""
    return TraceRunner(patience=Patience(abandon_after_s=ABANDON_AFTER_S))
