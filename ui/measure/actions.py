"""What the buttons of the page do: start, stop, put a result away, take a report, use the machine's cards."""

from typing import Any, Final

import streamlit as st

from planner.plan_types import Plan
from planner.units import MIB
from profiler.documents import Options
from profiler.plan_request import prepare
from profiler.registry import Busy
from profiler.report import MAX_REPORT_BYTES, Report, ReportError
from profiler.report_file import open_report
from profiler.runner import Job
from ui.document import Document
from ui.measure import jobs as running
from ui.measure.jobs import Run
from ui.measure.machine import Spot
from ui.state import load

STEPS: Final = "measure_steps"
MINUTES: Final = "measure_minutes"
INSIST: Final = "measure_insist"
WHERE: Final = "measure_where"
UPLOAD: Final = "measure_upload"
FIRST_STEPS: Final = 2
MOST_STEPS: Final = 50
FIRST_MINUTES: Final = 15
MOST_MINUTES: Final = 24 * 60
LIMIT_SHARE: Final = 0.95
"""Of the free host memory: the process ends itself before the system has to choose whom to end."""

_SET: Final = "measure_settings"
_HIDDEN: Final = "measure_hidden"
_SHOWN: Final = "measure_shown"
_OPENED: Final = "measure_opened"
_PROBLEM: Final = "measure_problem"
_UPLOADS: Final = "measure_uploads"
_TOO_LATE: Final = "measure_too_late"


def setting(name: str, default: Any) -> Any:
    """A setting of this page; kept while other pages are open."""
    return st.session_state.get(_SET, {}).get(name, default)


def keep(name: str) -> None:
    """Keep what the widget of a setting shows."""
    kept: dict[str, Any] = st.session_state.setdefault(_SET, {})
    kept[name] = st.session_state[name]


def keep_whole(name: str) -> None:
    """Keep a count, rounded; the field shows what is kept."""
    if st.session_state[name] is not None:
        st.session_state[name] = float(round(st.session_state[name]))
    keep(name)


def options(spot: Spot) -> Options:
    """How to measure, as set on the page."""
    limit = None
    if spot.kind == "cpu" and spot.free_bytes is not None:
        limit = max(1, int(spot.free_bytes * LIMIT_SHARE))
    steps = min(max(int(setting(STEPS, FIRST_STEPS) or FIRST_STEPS), 1), MOST_STEPS)
    minutes = min(max(int(setting(MINUTES, FIRST_MINUTES) or FIRST_MINUTES), 1), MOST_MINUTES)
    return Options(
        device=spot.kind,
        steps=steps,
        timeout_s=minutes * 60.0,
        memory_limit_bytes=limit,
        insist=bool(setting(INSIST, default=False)),
    )


def start(document: Document, plan: Plan, spot: Spot, asked: Document) -> None:
    """Start a measurement; if somebody was quicker, say so.

    Args:
        document: What to measure.
        plan: Its answer.
        spot: Where.
        asked: The open question: the same, or the one that `document` is a small copy of.
    """
    prepared, how = prepare(plan, spot.kind, spot.free_bytes), options(spot)

    def begin() -> Job:
        return running.runner().start(
            prepared.scenario, how, config=prepared.config, predicted_bytes=prepared.predicted_bytes
        )

    def describe(job: Job) -> Run:
        return Run(
            job=job,
            session=running.this_session(),
            address=st.context.ip_address or "",
            document=document,
            options=how,
            asked=asked,
        )

    begun = running.jobs().start(spot.key, begin, describe)
    st.session_state[_TOO_LATE] = isinstance(begun, Busy)
    for name in (_OPENED, _PROBLEM, _HIDDEN, _SHOWN):
        st.session_state.pop(name, None)


def stop(run: Run) -> None:
    """Ask a measurement to end."""
    run.job.stop()


def was_too_late() -> bool:
    """Whether the last start found the device taken. Told once."""
    return bool(st.session_state.pop(_TOO_LATE, False))


def hide(run: Run | None) -> None:
    """Put a result away, an opened one first."""
    if st.session_state.pop(_OPENED, None) is None and run is not None:
        st.session_state[_HIDDEN] = run.mark


def show(run: Run) -> None:
    """Look at the result of somebody else's measurement."""
    st.session_state[_SHOWN] = run.mark


def hidden() -> str:
    """Mark of the run that was put away."""
    return str(st.session_state.get(_HIDDEN, ""))


def shown() -> str:
    """Mark of somebody else's run that is looked at."""
    return str(st.session_state.get(_SHOWN, ""))


def opened() -> Report | None:
    """The report that was opened from a file."""
    found: Report | None = st.session_state.get(_OPENED)
    return found


def look_at(report: Report | None) -> None:
    """Open a report that another process has written so far."""
    if report is not None:
        st.session_state[_OPENED] = report


def problem() -> ReportError | None:
    """Why the last file could not be opened."""
    found: ReportError | None = st.session_state.get(_PROBLEM)
    return found


def upload_key() -> str:
    """Key of the uploader: a new one after each opened report, so that it is empty again."""
    return f"{UPLOAD}_{st.session_state.get(_UPLOADS, 0)}"


def take_upload() -> None:
    """Open the uploaded file, or keep why it cannot be."""
    upload = st.session_state.get(upload_key())
    if upload is None:
        return
    st.session_state.pop(_PROBLEM, None)
    try:
        if upload.size > MAX_REPORT_BYTES:
            raise ReportError("too_large", detail=str(upload.size))
        st.session_state[_OPENED] = open_report(upload.getvalue())
        st.session_state[_UPLOADS] = st.session_state.get(_UPLOADS, 0) + 1
    except ReportError as error:
        st.session_state[_PROBLEM] = error


def most_mib() -> int:
    """Largest report file, in MiB."""
    return MAX_REPORT_BYTES // MIB


def put_left(document: Document) -> None:
    """Make another question the open one."""
    load(document)
