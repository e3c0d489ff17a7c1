"""The section of the Plan page that checks by tracing: quiet until it is asked for, and drawn apart from the page.

It is a fragment, so that its buttons draw it alone; nothing is read or worked out before somebody asks.
"""

from typing import Final

import streamlit as st

from profiler.job_types import Snapshot
from profiler.trace.runner import TraceJob
from profiler.trace.traceable import why_not_traceable
from ui import parts, verdict
from ui.answers import answer
from ui.document import Document, canonical
from ui.language import current_words
from ui.measure.jobs import Run, this_session
from ui.state import was_replaced
from ui.trace import actions, wording
from ui.trace import jobs as running
from ui.trace.question import Question, capability_of, question_of
from ui.trace.result import Result, result_of
from ui.trace.states import ENDED_WITHOUT_RESULT, QUIET, State, of_job
from ui.trace.view import download, draw_result
from ui.words import Words

LOOK_EVERY_S: Final = 0.5
LAST_LINES: Final = 20


@st.fragment
def draw_trace(document: Document) -> None:
    """The section.

    Args:
        document: The question that the page answers.
    """
    if was_replaced():
        st.rerun()
    words = current_words()
    with st.container(key="trace", gap="small"):
        if actions.is_wanted():
            _wanted(document, words)
        else:
            _offer(document, words)


def _offer(document: Document, words: Words, *, again: bool = False) -> None:
    """What tracing is and a button; or why this question cannot be traced."""
    plan = answer(document).plan
    _title(words)
    if plan is None or not plan.resolved.is_training:
        st.html(f'<div class="p m">{words.html("trace.refused.serving")}</div>')
        return
    refused = why_not_traceable(plan.resolved)
    if not refused and capability_of(plan) is None:
        question = question_of(document)
        refused = () if question is None else question.refused
    if refused:
        reasons = parts.bullets(wording.refusal(remark, words) for remark in refused)
        st.html(f'<div class="p m">{words.html("trace.refused.head")}{reasons}</div>')
        return
    with st.container(key="trace_ask", horizontal=True, vertical_alignment="center", gap="medium"):
        st.html(f'<div class="p m">{words.html("trace.offer")}</div>', width="stretch")
        st.button(
            words("trace.again" if again else "trace.button"),
            key="trace_start",
            on_click=_start,
            args=(document,),
        )


def _start(document: Document, every_layer: bool = False) -> None:  # a callback
    question = question_of(document)
    if question is not None and not question.refused:
        actions.start(question, every_layer=every_layer)


def _title(words: Words) -> None:
    st.html(parts.section(words("trace.before"), words("trace.note")))


def _wanted(document: Document, words: Words) -> None:
    """Somebody asked: the answer, the way to it, or why there is none."""
    run = running.jobs().run(running.SLOT)
    seen = run.job.snapshot() if run is not None else None
    if run is not None:
        _take_in(run)
    question = question_of(document)
    result = None if question is None or question.refused else _result(question)
    if result is not None:
        actions.remember(document)
        _answered(result, words)
        if run is not None and seen is not None and run.is_of(document):
            _second_run(run, seen, words)
        return
    if run is not None and seen is not None and _is_under_way(run, seen, question):
        _title(words)
        draw_live(run, mine=run.session == this_session())
        return
    if question is not None and actions.is_waiting(question):
        actions.start(question)
        st.rerun()
    _offer(document, words)
    if run is not None and seen is not None and seen.is_over and run.is_of(document):
        _ended(seen, words)
    _earlier(document, words)


def _is_under_way(run: Run, seen: Snapshot, question: Question | None) -> bool:
    """Whether a trace runs that this page has started or waits for."""
    waiting = question is not None and actions.is_waiting(question)
    return not seen.is_over and (run.session == this_session() or waiting)


def _take_in(run: Run) -> None:
    """Keep the trace of a job that has ended, whoever started it."""
    if not run.job.is_over or not isinstance(run.job, TraceJob) or run.job.trace is None:
        return
    question = question_of(run.document)
    if question is not None and running.kept(question, full=run.job.trace.instant is None) is None:
        running.keep(question, run.job.trace)


def _result(question: Question) -> Result | None:
    trace = running.kept(question)
    if trace is None:
        return None
    full = trace.instant is None or not trace.instant.layers
    key = question.full_key if full else question.key
    return running.results().get(question.document, key, lambda: result_of(question, trace))


def _answered(result: Result, words: Words) -> None:
    with st.container(
        key="trace_head", horizontal=True, wrap=False, vertical_alignment="center", gap="small"
    ):
        st.html(parts.section(words("trace.title"), words("trace.note")), width="stretch")
        st.button(words("trace.close"), key="quiet_trace_close", type="tertiary", on_click=actions.close)
    draw_result(result, words)
    with st.container(key="trace_foot", horizontal=True, vertical_alignment="center", gap="small"):
        foot = wording.foot(result, words, same=_same_in_full(result.document))
        st.html(f'<div class="p m">{foot}</div>', width="stretch")
        if wording.is_extended(result):
            st.button(
                words("trace.every_layer"),
                key="quiet_trace_full",
                type="tertiary",
                on_click=_start,
                args=(result.document, True),
            )
        download(result, words)


def _same_in_full(document: Document) -> bool | None:
    """Whether the trace of every layer is event by event what was extended; None unless both are kept."""
    question = question_of(document)
    if question is None:
        return None
    short, full = running.traces().get(question.key), running.traces().get(question.full_key)
    if short is None or full is None:
        return None
    return short.events == full.events and short.storages.bytes == full.storages.bytes


def _second_run(run: Run, seen: Snapshot, words: Words) -> None:
    """Below an answer: the trace of every layer while it runs, or why it left nothing."""
    if not seen.is_over and run.session == this_session():
        draw_live(run, mine=True)
    elif seen.is_over:
        _ended(seen, words)


def _ended(seen: Snapshot, words: Words) -> None:
    """Why the last try for this very question left nothing."""
    state = of_job(seen, mine=True)
    if state not in ENDED_WITHOUT_RESULT:
        return
    tone = "" if state in QUIET else "bad"
    st.html(parts.note(tone, wording.ended(state.value, seen, words)))
    if state is State.REFUSED_BY_CHILD and seen.remarks:
        st.html(
            f'<div class="p">{parts.bullets(wording.refusal(each, words) for each in seen.remarks)}</div>'
        )
    lines = [line for line in (*seen.log, *seen.stderr) if line.strip()][-LAST_LINES:]
    if state is State.CRASHED and lines:
        with st.expander(words("measure.more.log"), key="trace_log"):
            st.code("\n".join(lines), language=None, wrap_lines=True)


def _earlier(document: Document, words: Words) -> None:
    """The answer to an earlier question, never shown as that of this one."""
    last = actions.last()
    if last is None or canonical(last) == canonical(document):
        return
    question = question_of(last)
    result = None if question is None else _result(question)
    if result is None:
        return
    sentence = verdict.scenario_sentence(result.plan, words)
    st.html(parts.note("", words.html("trace.earlier.note", scenario=sentence)))
    shown = actions.is_earlier_shown(last)
    with st.container(key="trace_earlier", horizontal=True, gap="small"):
        if shown:
            st.button(words("trace.earlier.hide"), key="trace_hide", on_click=actions.hide_earlier)
        else:
            st.button(
                words("trace.earlier.show"), key="trace_show", on_click=actions.show_earlier, args=(last,)
            )
        st.button(
            words("measure.report.load"),
            key="trace_load",
            type="tertiary",
            on_click=actions.put_left,
            args=(last,),
        )
    if shown:
        with st.container(key="trace_old"):
            draw_result(result, words)


@st.fragment(run_every=LOOK_EVERY_S)
def draw_live(run: Run, *, mine: bool) -> None:
    """Progress and a way to end it; the whole page is drawn again when the job is over."""
    words = current_words()
    seen = run.job.snapshot()
    if seen.is_over:
        st.rerun()
    fraction = seen.progress.fraction if seen.progress is not None else 0.0
    st.progress(fraction, text=wording.progress(seen, words) if mine else words("trace.progress.waiting"))
    if mine:
        st.button(
            words("trace.stop"),
            key="trace_stop",
            disabled=seen.state == "stopping",
            on_click=actions.stop,
            args=(run,),
        )
