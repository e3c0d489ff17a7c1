"""A small trial before the run: closed until somebody opens it."""

import json
from functools import lru_cache
from typing import Final

import streamlit as st

from planner.ledger import Category
from planner.plan_types import Plan
from planner.throughput.training_speed import TrainingSpeed
from planner.trial import FRACTION, Trial, trial
from ui import answers, parts, verdict
from ui.answers import answer
from ui.charts.gpu_bars import categories_at_peak
from ui.counts import short_count
from ui.document import Document, canonical
from ui.folded import folded
from ui.language import current_words
from ui.numbers import DASH, gib1, percent, whole
from ui.state import load, was_replaced
from ui.words import Safe, Words

REMEMBERED: Final = 32


@st.fragment
def draw_trial(document: Document) -> None:
    """The section.

    Args:
        document: A question that can be planned.
    """
    if was_replaced():
        st.rerun()
    words = current_words()
    box = folded("trial", words)
    full = answer(document).plan
    if box is None or full is None:
        return
    with box:
        found = _trial(canonical(document))
        st.html(f'<div class="p m">{words.html("trial.note", fraction=whole(FRACTION))}</div>')
        if found is None or found.plan is None:
            code = "not_planned" if found is None else found.refusal
            st.html(parts.note("tight", words.html(f"trial.refusal.{code}")))
            return
        st.html(f'<div class="p">{summary(found, full, words)}</div>')
        head = [words(f"trial.head.{name}") for name in ("what", "run", "trial")]
        st.html(parts.table(head, rows(found, full, found.plan, words), name=words("trial.title")))
        st.button(words("trial.open"), key="apply_trial", on_click=load, args=(found.document,))


@lru_cache(maxsize=REMEMBERED)
def _trial(text: str) -> Trial | None:
    full = answer(json.loads(text)).plan
    return None if full is None else trial(full, answers.tables())


def summary(found: Trial, full: Plan, words: Words) -> Safe:
    """How alike the trial is, and what it cannot show."""
    said = [words.html("trial.layers" if found.layers < found.full_layers else "trial.same_model",
                       layers=whole(found.layers), full=whole(found.full_layers))]  # fmt: skip
    if found.speed is not None and found.full_speed is not None:
        time, full_time = found.speed.step_time_s, found.full_speed.step_time_s
        if time is not None and full_time is not None and found.plan is not None:
            cards = found.plan.scenario.hardware.num_devices
            share = time * cards / (full_time * full.scenario.hardware.num_devices)
            said.append(words.html("trial.price", share=f"{share:.1%}".replace("%", "\u00a0%")))
    said.append(words.html("trial.unseen"))
    return Safe(" ".join(said))


def rows(found: Trial, full: Plan, small: Plan, words: Words) -> list[list[str]]:
    """The run and the trial side by side, as one card sees them."""
    plans = (full, small)
    table = [
        [words("trial.row.cards"), *(whole(plan.scenario.hardware.num_devices) for plan in plans)],
        [words("trial.row.parameters"), *(short_count(plan.model.params_total, words) for plan in plans)],
        [words("trial.row.layers"), whole(found.full_layers), whole(found.layers)],
        [words("trial.row.fullest"), *(gib1(plan.worst.peak_bytes) for plan in plans)],
        [words("trial.row.share"), *map(_share, plans)],
        [words("trial.row.verdict"), *(verdict.tag(plan.verdict, words) for plan in plans)],
    ]
    present = set(categories_at_peak(full)) | set(categories_at_peak(small))
    for category in (name for name in Category if name in present):
        sizes = [plan.worst.ledger.by_category(plan.worst.peak_phase).get(category, 0) for plan in plans]
        name = Safe(f"{parts.swatch(category)}{words.html(f'category.{category.value}')}")
        table.append([name, *map(gib1, sizes)])
    table.append([words("trial.row.speed"), *map(_speed, (found.full_speed, found.speed))])
    return table


def _share(plan: Plan) -> str:
    worst = plan.worst
    return DASH if not worst.usable_bytes else percent(worst.peak_bytes / worst.usable_bytes)


def _speed(speed: TrainingSpeed | None) -> str:
    if speed is None or speed.tokens_per_s_per_gpu is None:
        return DASH
    return whole(speed.tokens_per_s_per_gpu)
