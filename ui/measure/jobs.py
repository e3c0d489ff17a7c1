"""The measurements of this server: one a device, whoever asks, and what becomes of them when a page is closed.

A job belongs to the session that started it. It goes on while that session is connected, whichever page is
open; a keeper thread says so to the job. When the session is gone (tab closed, browser gone) and nobody else
watches, the job ends itself after `ABANDON_AFTER_S`. Its own timeout holds in any case.
"""

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import streamlit as st
from streamlit.runtime import Runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from profiler.documents import Options
from profiler.registry import Busy, JobRegistry
from profiler.runner import Job, Patience, Runner
from ui.document import Document, canonical

ABANDON_AFTER_S: Final = 60.0
"""A page that is loaded again, or a computer that was asleep for a moment, still finds its job."""

KEEP_EVERY_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A job with what the page wants to know of it.

    Attributes:
        job: The job.
        session: Session that started it.
        address: Where that session's browser is, empty for this computer.
        document: The question that is measured.
        asked: The question that was open then; the same unless a small copy is measured.
        options: How.
        mark: Tells this run from every other.
    """

    job: Job
    session: str
    address: str
    document: Document
    asked: Document
    options: Options
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def is_of(self, document: Document) -> bool:
        """Whether this very question is measured."""
        return canonical(self.document) == canonical(document)

    def is_copy_of(self, document: Document) -> bool:
        """Whether a small copy of this question is measured."""
        return canonical(self.asked) == canonical(document) and not self.is_of(document)

    def answers(self, document: Document) -> bool:
        """Whether it is for this question, in full or as a small copy."""
        return self.is_of(document) or self.is_copy_of(document)


class Jobs:
    """The newest run of every device. Safe to use from any thread.

    Args:
        is_connected: Whether a session is still there.
    """

    def __init__(self, is_connected: Callable[[str], bool]) -> None:
        self._registry = JobRegistry()
        self._is_connected = is_connected
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}
        self._keeper: threading.Thread | None = None

    def start(self, device: str, begin: Callable[[], Job], describe: Callable[[Job], Run]) -> Run | Busy:
        """Start a job on a device unless one runs there.

        Args:
            device: Key of the device.
            begin: Starts the job; called only while the device is free.
            describe: Puts a run round the job.
        """
        job = self._registry.start(device, "", begin)
        if isinstance(job, Busy):
            return job
        run = describe(job)
        with self._lock:
            self._runs[device] = run
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._keep, name="measure-keeper", daemon=True)
                self._keeper.start()
        return run

    def run(self, device: str) -> Run | None:
        """The newest run of a device, under way or over."""
        with self._lock:
            return self._runs.get(device)

    def keep_once(self) -> bool:
        """Tell the job of every connected session that it is wanted. Returns whether any job still runs."""
        with self._lock:
            running = [run for run in self._runs.values() if not run.job.is_over]
            if not running:
                self._keeper = None
        for run in running:
            if self._is_connected(run.session):
                run.job.snapshot()
        return bool(running)

    def close(self) -> None:
        """Stop all jobs and wait for their end."""
        self._registry.close()

    def _keep(self) -> None:
        while self.keep_once():
            time.sleep(KEEP_EVERY_S)


@st.cache_resource(show_spinner=False)
def jobs() -> Jobs:
    """The jobs of this server, shared by all sessions."""
    return Jobs(is_connected)


def runner() -> Runner:
    """Starts the child that measures."""
    return Runner(patience=Patience(abandon_after_s=ABANDON_AFTER_S))


def this_session() -> str:
    """Id of the session that a page is being drawn for."""
    context = get_script_run_ctx()
    return "" if context is None else context.session_id


def is_connected(session: str) -> bool:
    """Whether a session's browser is connected; where there is no server, as in a test, it is."""
    return not Runtime.exists() or Runtime.instance().is_active_session(session)
