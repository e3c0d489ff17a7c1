"""The traces of this server: one runs at a time, and those used last are kept for everybody."""

from typing import Final

import streamlit as st

from profiler.runner import Patience
from profiler.trace.cache import TraceCache
from profiler.trace.runner import TraceRunner
from ui.measure.jobs import ABANDON_AFTER_S, Jobs, is_connected
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


def runner() -> TraceRunner:
    """Starts the child that traces."""
    return TraceRunner(patience=Patience(abandon_after_s=ABANDON_AFTER_S))
