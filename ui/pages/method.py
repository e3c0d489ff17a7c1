"""The Method page: the formulas behind the open answer, how right they are, and what they leave out."""

from collections.abc import Callable

import streamlit as st

from hardware_db.scores import SpeedScore, speed_score
from planner.plan_types import Plan
from ui import parts, verdict
from ui.answers import tables as project_tables
from ui.charts import method_scatter, method_spread
from ui.issue_words import issue_html
from ui.method import gaps, tables, verified, wording
from ui.method.accuracy import SIDES, together
from ui.method.data_files import data_files, data_licences
from ui.method.formulas import all_references, by_category, used_references
from ui.method.published import Published, published
from ui.method.speed_score import families_table, lines_table, note
from ui.pages.frame import Frame, begin, plot
from ui.pages.head import draw_unanswered
from ui.pages.problems import draw_problems
from ui.pictures import described
from ui.share import draw_share
from ui.words import Safe, Words, escaped

TABS = ("accuracy", "formulas", "verified", "data", "gaps")
Section = Callable[[Published, Plan, Words], None]


def draw() -> None:
    """Draw the page; of its tabs only the open one is worked out."""
    frame = begin()
    words = frame.words
    if frame.plan is None:
        draw_unanswered(frame)
        return
    score = published()
    with st.container(key="stale" if frame.stale else "current"):
        _verdict(frame, frame.plan, score)
        st.html(parts.strip(wording.strip(score, words)))
        sections: dict[str, Section] = {
            "accuracy": _accuracy,
            "formulas": _formulas,
            "verified": _verified,
            "data": _data,
            "gaps": _gaps,
        }
        names = [words(f"method.tab.{tab}") for tab in TABS]
        for tab, box in zip(TABS, st.tabs(names, key="method_tabs", on_change="rerun"), strict=True):
            if box.open:
                with box:
                    sections[tab](score, frame.plan, words)
        st.html(f'<div class="foot">{wording.foot(score, words)}</div>')


def _verdict(frame: Frame, plan: Plan, score: Published) -> None:
    words, runs = frame.words, together(score.runs)
    with st.container(key="verdict", gap=None):
        with st.container(key="top", horizontal=True, wrap=False, vertical_alignment="center", gap="small"):
            st.html(f'<div class="scn">{verdict.scenario_sentence(plan, words)}</div>', width="stretch")
            draw_share(frame)
        st.html(
            f"{parts.headline(wording.headline(runs, words))}"
            f'<p class="why">{wording.why(plan, runs, words)}</p>'
        )
    draw_problems(frame)


def _accuracy(score: Published, _plan: Plan, words: Words) -> None:
    with st.grid(2, min_column_width=320, gap=("medium", "small")):
        for side in SIDES:
            with st.container(key=f"scatter_{side}", gap="xsmall"):
                st.html(parts.section(words(f"method.scatter.{side}.title"), words("method.scatter.note")))
                alternative = method_scatter.alternative(score, side, words)
                plot(method_scatter.scatter(score, side, words), f"method_{side}", alternative)
                st.html(wording.legend(score, side, words))
    with st.container(key="split"):
        with st.container(key="spread", gap="xsmall"):
            st.html(parts.section(words("method.spread.title"), words("method.spread.note")))
            plot(method_spread.spread(score, words), "method_spread", method_spread.alternative(score, words))
        with st.container(key="fits", gap="xsmall"):
            st.html(parts.section(words("method.fits.title"), words("method.fits.note")))
            st.html(wording.fits_table(score, words))
            st.html(f'<div class="p">{wording.fits_notes(score, words)}</div>')
            st.html(parts.section(words("method.sample.title"), words("method.sample.note")))
            st.html(f'<div class="p">{wording.sample_notes(score, words)}</div>')
    speed = speed_score()
    with st.container(key="speed_score", gap="xsmall"):
        st.html(parts.section(words("method.speed.title"), words("method.speed.note")))
        st.html(lines_table(speed, words))
        st.html(f'<div class="p m">{note(speed, words)}</div>')
    with st.container(key="rows_method", gap=None):
        _tables(score, speed, words)


def _tables(score: Published, speed: SpeedScore, words: Words) -> None:
    """The score in full, folded away."""
    title = words("method.speed.families", n=len(speed.families))
    _folded(title, "speed", lambda: families_table(speed, words), words("method.speed.families_note"))
    title = words("method.cells.title", n=sum(bool(cell.n) for cell in score.cells))
    _folded(title, "cells", lambda: tables.cells_table(score, words), words("method.cells.note"))
    _folded(
        words("method.held.title"), "held", lambda: tables.held_table(score, words), words("method.held.note")
    )
    _folded(
        words("method.coverage.title"),
        "coverage",
        lambda: tables.coverage_table(score, words),
        words("method.coverage.note"),
    )
    own = words.count("method.own.title", len(score.in_sample))
    _folded(own, "own", lambda: tables.in_sample_table(score, words), words("method.own.note"))


def _folded(title: str, key: str, table: Callable[[], Safe], note: str = "") -> None:
    """A table that is made when its box is opened."""
    box = st.expander(title, key=f"method_{key}", on_change="rerun")
    if box.open:
        with box:
            if note:
                st.html(f'<div class="p m">{escaped(note)}</div>')
            st.html(table())


def _formulas(_score: Published, plan: Plan, words: Words) -> None:
    st.html(f'<div class="p m">{words.html("method.formulas.note")}</div>')
    for category, formulas in by_category(plan).items():
        with st.container(key=f"formulas_{category.value}", gap="xsmall"):
            st.html(tables.formula_heading(category, formulas, words))
            st.html(tables.formula_table(category, formulas, plan, words))
    references = all_references()
    _folded(
        words("method.references.title", n=len(references)),
        "references",
        lambda: tables.references_table(references, used_references(plan), words),
    )


def _verified(score: Published, plan: Plan, words: Words) -> None:
    found = verified.table(score)
    with st.container(key="verified", gap="xsmall"):
        st.html(parts.section(words("method.verified.training"), words("method.verified.note")))
        st.html(tables.training_evidence(found, plan, words))
    with st.container(key="verified_engines", gap="xsmall"):
        st.html(parts.section(words("method.verified.serving"), words("method.verified.serving_note")))
        st.html(tables.serving_evidence(found, plan, words))
    st.html(f'<div class="p">{parts.bullets(wording.verified_notes(words))}</div>')


def _data(score: Published, _plan: Plan, words: Words) -> None:
    with st.container(key="data", gap="xsmall"):
        st.html(parts.section(words("method.data.title"), words("method.data.note")))
        st.html(tables.files_table(data_files(project_tables(), score), words))
    st.html(f'<div class="p m">{words.html("method.data.recalled_note")}</div>')
    for key, rows in (("tables", data_licences()), ("measurements", score.licences)):
        title = words(f"method.licences.{key}", n=len(rows))
        note = words(f"method.licences.{key}_note")
        _folded(title, key, lambda rows=rows, title=title: tables.licence_table(rows, title, words), note)  # type: ignore[misc]


def _gaps(score: Published, plan: Plan, words: Words) -> None:
    own = gaps.of_plan(plan)
    with st.container(key="own_gaps", gap="xsmall"):
        st.html(parts.section(words("method.gaps.own"), words("method.gaps.own_note")))
        if own:
            st.html(parts.note("tight", parts.bullets(issue_html(issue, words) for issue in own)))
        else:
            st.html(f'<div class="p m">{words.html("method.gaps.own_none")}</div>')
    with st.grid(2, min_column_width=320, gap=("medium", "small")):
        for key in ("training", "serving"):
            with st.container(key=f"gaps_{key}", gap="xsmall"):
                title = words(f"method.gaps.{key}")
                st.html(parts.section(title, words("method.gaps.note")))
                st.html(tables.gaps_table(gaps.BY_TASK[key], title, words))
    with st.grid(2, min_column_width=320, gap=("medium", "small")):
        with st.container(key="gaps_any", gap="xsmall"):
            title = words("method.gaps.any")
            st.html(parts.section(title, words("method.gaps.any_note")))
            st.html(tables.gaps_table(gaps.BY_TASK["any"], title, words))
        with st.container(key="refused", gap="xsmall"):
            st.html(parts.section(words("method.gaps.refused"), words("method.gaps.refused_note")))
            pipelines = len(project_tables().pipelines)
            refused = pipelines - len(described())
            st.html(f'<div class="p">{parts.bullets(wording.refused_notes(pipelines, refused, words))}</div>')
            if score.unsupported:
                st.html(parts.section(words("method.gaps.unanswered"), words("method.gaps.unanswered_note")))
                st.html(tables.unanswered_table(score, words))
