"""Keeps a measured run for later plans, and lists the kept ones: remove, download, take in."""

from collections.abc import Callable
from typing import Final

import streamlit as st

from planner.accuracy.calibrate import KeptRun
from planner.units import MIB
from profiler.kept import MOST_BYTES, KeptError, KeptRuns, kept_from
from ui.catalog import gpu_labels
from ui.dates import day_of
from ui.kept_runs import kept_runs
from ui.measure.result import Result
from ui.measure.sizes import decimals_for, error, size
from ui.names import short_model_name
from ui.numbers import whole
from ui.words import Words

NAME: Final = "measure_keep_name"
LONGEST_NAME: Final = 80
FILE_NAME: Final = "headroom-kept-runs.json"
_PROBLEM: Final = "measure_keep_problem"
_UPLOAD: Final = "measure_keep_upload"
_UPLOADS: Final = "measure_keep_uploads"


def draw_keep(result: Result, words: Words) -> None:
    """The row that keeps this result; only a finished run on a GPU says something about later plans."""
    report = result.report
    if result.on_cpu or result.plan is None or report.outcome != "completed":
        return
    at = report.created_at
    if any(run.created_at == at for run in kept_runs()):
        st.html(f'<div class="p m">{words.html("measure.keep.is_kept")}</div>')
        return
    with st.container(key="measure_keep", horizontal=True, vertical_alignment="bottom", gap="small"):
        st.text_input(
            words("measure.keep.name"),
            value=words("measure.keep.first_name", model=_model_name(result), date=at[:10]),
            max_chars=LONGEST_NAME,
            key=NAME,
        )
        st.button(words("measure.keep.do"), key="measure_keep_do", on_click=_keep, args=(result,))
    _say_problem(words)


def _model_name(result: Result) -> str:
    model_id = result.plan.scenario.model.id if result.plan is not None else None
    return short_model_name(model_id) if model_id else str(result.report.config.get("model_type", ""))


def draw_kept(words: Words) -> None:
    """The kept runs; one line where there is none."""
    runs = kept_runs()
    title = words("measure.kept.title")
    with st.expander(title, key="measure_kept"):
        st.html(f'<div class="p">{words.html("measure.kept.text")}</div>')
        for run in runs:
            _row(run, words)
        if not runs:
            st.html(f'<div class="empty">{words.html("measure.kept.none")}</div>')
        with st.container(horizontal=True, gap="small", key="measure_kept_files"):
            st.download_button(
                words("measure.kept.download"),
                data=lambda: KeptRuns().export(),
                file_name=FILE_NAME,
                mime="application/json",
                key="measure_kept_download",
                on_click="ignore",
                disabled=not runs,
            )
        st.file_uploader(
            words("measure.kept.upload"),
            key=_upload_key(),
            on_change=_take_in,
            max_upload_size=MOST_BYTES // MIB,
        )
        _say_problem(words)


def _row(run: KeptRun, words: Words) -> None:
    decimals = decimals_for(run.measured_bytes)
    figures = words.html(
        "measure.kept.figures",
        runtime=words(f"runtime.{run.runtime}"),
        gpu=gpu_labels().get(run.gpu_id, run.gpu_id),
        driver=run.driver,
        date=day_of(run.created_at, words),
        predicted=size(run.predicted_bytes, decimals),
        measured=size(run.measured_bytes, decimals),
        error=error(run.predicted_bytes / run.measured_bytes - 1),
    )
    with st.container(
        key=f"fixrow_kept_{run.id}", horizontal=True, wrap=False, vertical_alignment="center", gap="small"
    ):
        name = words.html("measure.kept.name", name=run.name)
        st.html(f'<div class="fix"><span>{name}</span><span></span><span class="s">{figures}</span></div>')
        st.button(
            words("measure.kept.remove"),
            key=f"measure_kept_remove_{run.id}",
            on_click=_remove,
            args=(run.id,),
        )


def _keep(result: Result) -> None:
    if result.plan is None:
        return
    name = str(st.session_state.get(NAME) or "")[:LONGEST_NAME]
    _tried(lambda: KeptRuns().add(kept_from(result.report, result.plan, name)) if result.plan else None)


def _remove(run_id: str) -> None:
    _tried(lambda: KeptRuns().remove(run_id))


def _take_in() -> None:
    upload = st.session_state.get(_upload_key())
    if upload is None:
        return
    _tried(lambda: KeptRuns().take_in(upload.getvalue()))
    if _PROBLEM not in st.session_state:
        st.session_state[_UPLOADS] = st.session_state.get(_UPLOADS, 0) + 1


def _upload_key() -> str:
    return f"{_UPLOAD}_{st.session_state.get(_UPLOADS, 0)}"


def _say_problem(words: Words) -> None:
    problem: KeptError | None = st.session_state.get(_PROBLEM)
    if problem is not None:
        said = words.html(
            f"measure.kept.problem.{problem.code}", detail=problem.detail, most=whole(MOST_BYTES // MIB)
        )
        st.html(f'<div class="msg bad" role="alert">{said}</div>')


def _tried(act: Callable[[], object]) -> None:
    """Do it, or keep why it could not be done for the page to say."""
    st.session_state.pop(_PROBLEM, None)
    try:
        act()
    except KeptError as error:
        st.session_state[_PROBLEM] = error
