"""The Diagnose page: why a run failed, which tensor it was, and what to change."""

import streamlit as st

from planner.diagnose import Diagnosis, diagnose
from planner.plan_types import Plan
from ui import parts, verdict
from ui.charts import diagnose_bars
from ui.diagnose import trouble, waiting, wording
from ui.diagnose.fixing import draw_fixes, draw_vain
from ui.diagnose.intake import draw_intake
from ui.numbers import gib1
from ui.pages.frame import Frame, begin, plot
from ui.pages.head import draw_unanswered
from ui.pages.problems import draw_problems
from ui.share import draw_share
from ui.words import Words


def draw() -> None:
    """Draw the page. The verdict stands above the field it comes from, so its place is kept until it is known."""
    frame = begin()
    if frame.plan is None:
        draw_unanswered(frame)
        return
    plan, words = frame.plan, frame.words
    with st.container(key="stale" if frame.stale else "current"):
        top = st.container(key="verdict", gap=None)
        draw_problems(frame)
        with st.container(key="split"):
            left = st.container(key="diagnose_left", gap="small")
            right = st.container(key="diagnose_right", gap="xsmall")
        with left:
            reading, is_example = draw_intake(words)
        found = diagnose(reading, plan)
        with top:
            _verdict(frame, plan, found)
        with left:
            _layers(found, words)
        with right:
            _do(frame, plan, found)
        with st.container(key="trouble", gap="xsmall"):
            st.html(parts.section(words("diagnose.trouble_title"), words("diagnose.trouble_note")))
            st.html(trouble.table(frame.document, plan, words))
        _between(found, plan, words)
        _records(found, words)
        foot = words.html("diagnose.foot_example" if is_example else "diagnose.foot")
        st.html(f'<div class="foot">{foot}</div>')


def _verdict(frame: Frame, plan: Plan, found: Diagnosis) -> None:
    words = frame.words
    with st.container(key="top", horizontal=True, wrap=False, vertical_alignment="center", gap="small"):
        st.html(f'<div class="scn">{verdict.scenario_sentence(plan, words)}</div>', width="stretch")
        draw_share(frame)
    st.html(
        f"{parts.headline(wording.headline(found, words))}"
        f'<p class="why">{wording.tag(found, words)}&ensp;{wording.reason(found, words)}</p>'
    )


def _layers(found: Diagnosis, words: Words) -> None:
    layers, record = found.layers, found.record
    if layers is None or record is None:
        st.html(f'<div class="empty">{words.html("diagnose.no_layers")}</div>')
        return
    request = record.bytes("request")
    tensor = wording.tensor_name(found.tensor, words) if found.tensor is not None else ""
    with st.container(key="layers", gap="xsmall"):
        st.html(parts.section(words("diagnose.layers"), words("diagnose.layers_note")))
        plot(
            diagnose_bars.diagnose_bars(layers, request, tensor, words, record.device),
            "diagnose_bars",
            diagnose_bars.alternative(layers, request, words),
        )
    head = [words(f"diagnose.layer_head.{name}") for name in ("layer", "size", "check")]
    st.html(parts.table(head, wording.layer_rows(layers, words), name=words("diagnose.layers"), wide=(2,)))


def _do(frame: Frame, plan: Plan, found: Diagnosis) -> None:
    words = frame.words
    draw_fixes(found, frame.document, plan, words)
    draw_vain(found, words)
    remarks = wording.remark_lines(found, words)
    if remarks:
        st.html(parts.section(words("diagnose.remarks")))
        st.html(f'<div class="p">{parts.bullets(remarks)}</div>')
    device = found.device
    if found.layers is not None and device is not None:
        st.html(parts.section(words("diagnose.beside")))
        body = words.html(
            "diagnose.beside_body",
            gpu=verdict.gpu_name(device, words),
            needs=gib1(device.peak_bytes),
            used=gib1(found.layers.used_bytes),
        )
        st.html(f'<div class="p m">{body}</div>')
    st.html(parts.section(words("diagnose.sure_title")))
    st.html(f'<div class="p m">{wording.how_sure(found, words)}</div>')


def _between(found: Diagnosis, plan: Plan, words: Words) -> None:
    """Signs that cards wait for each other, and the checklist."""
    told = waiting.signs_html(found, plan, words)
    if told is not None:
        with st.container(key="signs", gap="xsmall"):
            st.html(parts.section(words("diagnose.signs_title"), words("diagnose.signs_note")))
            st.html(told)
    with st.container(key="checklist", gap="xsmall"):
        st.html(parts.section(words("diagnose.check_title"), words("diagnose.check_note")))
        st.html(waiting.checklist_html(plan, words))


def _records(found: Diagnosis, words: Words) -> None:
    if len(found.reading.records) < 2:
        return
    with st.expander(words.count("diagnose.records_title", len(found.reading.records)), key="records"):
        st.html(wording.record_table(found, words))
