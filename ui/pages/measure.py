"""The Measure page: runs a real step on this machine and lays what was measured beside the prediction."""

from dataclasses import replace

import streamlit as st

from planner.issues import Severity
from planner.plan_types import Plan
from profiler.plan_request import prepare
from profiler.report import Report
from ui import parts, verdict
from ui.answers import answer
from ui.document import Document
from ui.issue_words import issue_html
from ui.measure import actions, machine, wording
from ui.measure import jobs as running
from ui.measure.elsewhere_panel import draw_elsewhere
from ui.measure.findings_panel import draw_findings
from ui.measure.jobs import Run
from ui.measure.keep_panel import draw_keep, draw_kept
from ui.measure.live_panel import draw_live
from ui.measure.ranks_panel import draw_ranks
from ui.measure.result import Result, question_of, result_of
from ui.measure.result_panel import (
    download,
    draw_first_row,
    draw_gaps,
    draw_more,
    draw_parts,
    draw_phases,
    draw_readings,
)
from ui.measure.start_panel import copy_for, draw_do, draw_machine, draw_what
from ui.measure.states import ENDED_WITHOUT_RESULT, State
from ui.measure.view import View, view_of
from ui.pages.frame import Frame, begin
from ui.share import draw_share
from ui.trace import snapshots
from ui.trace.snapshot_view import draw_snapshot
from ui.words import Safe, Words

LAST_LINES = 20
UNDER_WAY = frozenset({State.RUNNING, State.STOPPING, State.BUSY})


def draw() -> None:
    """Draw the page."""
    frame = begin()
    words = frame.words
    memory = snapshots.opened()
    if memory is not None:
        draw_snapshot(memory, frame.plan, words)
        return
    report = actions.opened()
    if report is not None:
        _opened(frame, report)
        return
    if frame.plan is None:
        st.html(parts.headline(words.html("measure.title.nothing")))
        st.html(f'<p class="why">{words.html("measure.why.nothing")}</p>')
        _problems(frame)
        _foot_row(words)
        return
    view = _look(frame, frame.plan)
    if (
        view.state in {State.DONE, State.OUT_OF_MEMORY}
        and view.seen is not None
        and view.seen.report is not None
    ):
        _result(frame, view, result_of(view.seen.report))
    else:
        _without_result(frame, view)


def _look(frame: Frame, plan: Plan) -> View:
    here = machine.look()
    spot = here.spot(actions.setting(actions.WHERE, None))
    return view_of(
        frame.document,
        plan,
        here=here,
        spot=spot,
        run=running.jobs().run(spot.key),
        session=running.this_session(),
        hidden=actions.hidden(),
        shown=actions.shown(),
    )


def _without_result(frame: Frame, view: View) -> None:
    """Before a start, while it runs, and after an end that left no result."""
    words = frame.words
    copy = None if view.state in UNDER_WAY else copy_for(view)
    _head(
        frame,
        wording.title(view, words),
        wording.tag(view.state, words),
        wording.why(view, words, has_copy=copy is not None),
    )
    if actions.was_too_late():
        name = view.spot.name or words("measure.device.cpu")
        st.html(parts.note("tight", words.html("measure.start.busy", device=name)))
    if view.run is not None and view.state in UNDER_WAY:
        draw_live(view.run, mine=view.mine)
        st.html(f'<div class="foot">{words.html("measure.foot.before")}</div>')
        return
    ran = _copy_that_ran(view)
    st.html(parts.strip(wording.before_strip(ran or view, actions.options(view.spot).steps, words)))
    if ran is not None:
        said = words.html("measure.report.small", scenario=verdict.scenario_sentence(ran.plan, words))
        st.html(parts.note("", said))
    if view.state in ENDED_WITHOUT_RESULT:
        _last_words(view, words)
    _somebody_elses(view, words)
    with st.container(key="split"):
        with st.container(gap="xsmall", key="measure_what"):
            draw_what(ran or view, words)
            draw_machine(view.here, words)
        with st.container(gap="xsmall", key="measure_do"):
            draw_do(view, copy, words)
            draw_elsewhere()
    _foot_row(words)
    draw_kept(words)
    st.html(f'<div class="foot">{words.html("measure.foot.before")}</div>')


def _copy_that_ran(view: View) -> View | None:
    """The look at the small copy whose measurement ended without a result; None for none."""
    run = view.run
    if run is None or view.state not in ENDED_WITHOUT_RESULT or not run.is_copy_of(view.document):
        return None
    plan = answer(run.document).plan
    if plan is None:
        return None
    prepared = prepare(plan, view.spot.kind, view.spot.free_bytes)
    return replace(view, document=run.document, plan=plan, prepared=prepared)


def _last_words(view: View, words: Words) -> None:
    """What the process said at its end; open where it crashed."""
    if view.seen is None or view.state in {State.STOPPED, State.ABANDONED}:
        return
    lines = [line for line in (*view.seen.log, *view.seen.stderr) if line.strip()][-LAST_LINES:]
    crashed = view.state in {State.CRASHED, State.MISSING_PACKAGE, State.NO_CUDA}
    detail = [view.seen.detail] if view.seen.detail and view.seen.detail not in lines else []
    with st.expander(words("measure.more.log"), key="measure_log", expanded=crashed):
        st.code(
            "\n".join([*lines, *detail]) or words("measure.more.log_empty"), language=None, wrap_lines=True
        )


def _somebody_elses(view: View, words: Words) -> None:
    """A result that another page left on this device can be looked at."""
    run, seen = view.run, view.seen
    if run is None or seen is None or view.mine or seen.report is None or run.mark == actions.hidden():
        return
    with st.container(key="fixrow_other", horizontal=True, wrap=False, vertical_alignment="center"):
        st.html(f'<div class="p">{words.html("measure.report.last")}</div>', width="stretch")
        st.button(words("measure.report.show"), key="measure_show", on_click=actions.show, args=(run,))


def _head(frame: Frame, title: Safe, tag: Safe, why: Safe) -> None:
    words, plan = frame.words, frame.plan
    with st.container(key="verdict", gap=None):
        with st.container(key="top", horizontal=True, wrap=False, vertical_alignment="center", gap="small"):
            sentence = verdict.scenario_sentence(plan, words) if plan is not None else Safe("")
            st.html(f'<div class="scn">{sentence}</div>', width="stretch")
            draw_share(frame)
        st.html(f'{parts.headline(title)}<p class="why">{tag}&ensp;{why}</p>')
    _problems(frame)


def _problems(frame: Frame) -> None:
    """Errors of the question on the left; what is shown is then of the last one that had none."""
    words = frame.words
    errors = [issue for issue in frame.desk.answer.issues if issue.severity is Severity.ERROR]
    if errors:
        items = parts.bullets(issue_html(issue, words) for issue in errors)
        head = words.html("stale.note" if frame.plan is not None else "stale.mend")
        st.html(parts.note("bad", Safe(f'<span role="alert">{head}</span>{items}')))


def _opened(frame: Frame, report: Report) -> None:
    words, result = frame.words, result_of(report)
    _result_head(frame, result)
    opened = words.html(
        "measure.report.opened",
        time=wording.clock_time(report.created_at),
        device=report.environment.device_name,
    )
    st.html(parts.note("", words.sentences([opened, _measured_was(result, words)])))
    _body(result, words, run=None, again=None, elsewhere=question_of(report))


def _result(frame: Frame, view: View, result: Result) -> None:
    words, run = frame.words, view.run
    _result_head(frame, result)
    if run is not None and run.is_copy_of(frame.document):
        st.html(parts.note("", words.html("measure.report.small", scenario=_sentence(result, words))))
    elif run is not None and not run.is_of(frame.document):
        said = words.html("measure.report.earlier")
        st.html(parts.note("", words.sentences([said, _measured_was(result, words)])))
    elsewhere = run.document if run is not None and not run.is_of(frame.document) else None
    _body(result, words, run=run, again=view, elsewhere=elsewhere)


def _result_head(frame: Frame, result: Result) -> None:
    words = frame.words
    _head(
        frame,
        wording.result_title(result, words),
        wording.result_tag(result, words),
        wording.result_why(result, words),
    )


def _measured_was(result: Result, words: Words) -> Safe:
    return words.html("measure.report.other", scenario=_sentence(result, words))


def _sentence(result: Result, words: Words) -> Safe:
    if result.plan is None:
        return Safe(words("model.own_name", type=str(result.report.config.get("model_type", ""))))
    return verdict.scenario_sentence(result.plan, words)


def _body(
    result: Result, words: Words, *, run: Run | None, again: View | None, elsewhere: Document | None
) -> None:
    st.html(parts.strip(wording.strip(result, words)))
    with st.container(key="split"):
        with st.container(key="measure_course", gap="xsmall"):
            draw_first_row(result, words)
        with st.container(key="measure_gaps", gap="xsmall"):
            draw_gaps(result, words)
            _buttons(result, words, run=run, again=again, elsewhere=elsewhere)
    with st.container(key="split2"):
        with st.container(gap="xsmall"):
            draw_parts(result, words)
        with st.container(gap="xsmall"):
            draw_readings(result, words)
    with st.container(key="measure_phases", gap="xsmall"):
        draw_phases(result, words)
    with st.container(key="measure_found", gap="xsmall"):
        draw_ranks(result.report, words)
        draw_findings(result.report, words)
    draw_keep(result, words)
    draw_more(result, words)
    _remarks(result, words)
    _foot_row(words)
    draw_kept(words)
    st.html(f'<div class="foot">{wording.foot(result.report, words)}</div>')


def _buttons(
    result: Result, words: Words, *, run: Run | None, again: View | None, elsewhere: Document | None
) -> None:
    with st.container(horizontal=True, gap="small", key="measure_buttons"):
        if run is not None and again is not None and result.plan is not None:
            st.button(
                words("measure.start.again"),
                key="measure_again",
                type="primary",
                on_click=actions.start,
                args=(run.document, result.plan, again.spot, run.asked),
            )
        download(result.report, words)
        st.button(words("measure.report.close"), key="measure_close", on_click=actions.hide, args=(run,))
        if elsewhere is not None and result.plan is not None:
            st.button(
                words("measure.report.load"),
                key="measure_load",
                type="tertiary",
                on_click=actions.put_left,
                args=(elsewhere,),
            )


def _remarks(result: Result, words: Words) -> None:
    """What was done differently than asked; readings that failed stand beside the readings."""
    texts = [
        wording.remark_text(remark, words) for remark in result.report.remarks if remark.code != "not_read"
    ]
    where = result.report.out_of_memory
    if where is not None and where.detail:
        texts.append(where.detail)
    if texts:
        st.html(parts.note("", parts.bullets(texts) if len(texts) > 1 else texts[0]))


def _foot_row(words: Words) -> None:
    """A report to open, and the same from a terminal."""
    with st.container(key="split_foot"):
        with st.container(gap="xsmall", key="measure_terminal"):
            _terminal(words)
        with st.container(gap="xsmall", key="measure_open"):
            _open_report(words)
            snapshots.draw_open(words)


def _terminal(words: Words) -> None:
    st.html(parts.section(words("measure.terminal.title"), words("measure.terminal.note")))
    st.html(f'<div class="p">{words.html("measure.terminal.text")}</div>')
    st.code(words("measure.terminal.command"), language=None, wrap_lines=True)


def _open_report(words: Words) -> None:
    st.html(parts.section(words("measure.report.title"), words("measure.report.note")))
    mib = actions.most_mib()
    st.file_uploader(
        words("measure.report.upload", mib=mib),
        key=actions.upload_key(),
        on_change=actions.take_upload,
        max_upload_size=mib,
    )
    problem = actions.problem()
    if problem is not None:
        text = words.html(
            f"measure.report.{problem.code}", mib=mib, field=problem.field, detail=problem.detail
        )
        st.html(f'<div class="msg bad" role="alert">{text}</div>')
