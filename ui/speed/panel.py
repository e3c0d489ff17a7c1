"""The section on the Plan page: a step or an answer part by part, and what binds it."""

from collections.abc import Sequence
from typing import Final

import streamlit as st

from planner.plan_types import Plan
from planner.references import REFERENCES
from planner.throughput.draft_speed import DraftSpeed, draft_speeds
from planner.throughput.network_need import network_need
from planner.throughput.serving_speed import ServingSpeed, serving_speed, speed_by_concurrency
from planner.throughput.training_speed import TrainingSpeed, training_speed
from planner.throughput.types import Part, Unknown
from ui import parts
from ui.answers import tables
from ui.charts.step_time import TimeBar, step_time
from ui.numbers import DASH, percent, whole
from ui.speed import wording
from ui.words import Safe, Words

NUMBERS: Final = (1, 4, 16, 64, 256)
"""Sequences at once of the table."""


def draw_speed(plan: Plan, words: Words) -> None:
    """The section.

    Args:
        plan: The plan of the page.
        words: The language.
    """
    with st.container(key="speed", gap="xsmall"):
        if plan.resolved.is_training:
            _training(plan, words)
        else:
            _serving(plan, words)


def _training(plan: Plan, words: Words) -> None:
    found = training_speed(plan, tables())
    st.html(parts.section(words("speed.training.title"), words("speed.note")))
    if found.step_time_s is None:
        _lacking(found.missing, words)
        return
    st.html(step_time(training_bars(found, words), words))
    need = network_need(plan, found, tables())
    said = [wording.training_sentence(found, words)]
    said += [wording.network_sentence(need, words)] if need is not None else []
    st.html(f'<div class="p">{words.sentences(said)}</div>')
    st.html(f'<div class="p m">{wording.foot(found.band, words)}</div>')
    with st.expander(words("speed.table.title", n=len(found.parts)), key="speed_parts"):
        st.html(parts_table(found.parts, words, words("speed.training.title")))


def training_bars(found: TrainingSpeed, words: Words) -> tuple[TimeBar, ...]:
    """The bar of a step."""
    value = wording.time_band(found.step_time_s or 0.0, found.band, words)
    label = words("speed.training.bar", tokens=whole(found.step_tokens))
    return (TimeBar(label=label, value=value, parts=found.parts, band=found.band),)


def _serving(plan: Plan, words: Words) -> None:
    found = serving_speed(plan, tables())
    st.html(parts.section(words("speed.serving.title"), words("speed.note")))
    if found.tpot_s is None:
        _lacking(found.missing, words)
        return
    st.html(step_time(serving_bars(found, words), words))
    st.html(f'<div class="p">{wording.serving_sentence(found, words)}</div>')
    if found.missing:
        _lacking(found.missing, words)
    drafts = draft_speeds(plan, tables())
    if drafts:
        st.html(draft_table(drafts, words))
    st.html(f'<div class="p m">{wording.foot(found.tokens_band or found.tpot_band, words)}</div>')
    with st.expander(words("speed.table.by_concurrency"), key="speed_concurrency"):
        st.html(concurrency_table(plan, found, words))
        st.html(f'<div class="p m">{words.html("speed.table.together")}</div>')
    with st.expander(words("speed.table.title", n=len(found.parts)), key="speed_parts"):
        st.html(parts_table(found.parts, words, words("speed.serving.step")))


def serving_bars(found: ServingSpeed, words: Words) -> tuple[TimeBar, ...]:
    """The bars of the first token and of the next ones."""
    bars = []
    if found.ttft_parts and found.ttft_s is not None:
        together = max(1, round(found.load.together))
        label = words.count("speed.serving.first", together, tokens=whole(found.load.prompt_tokens))
        value = wording.time_band(found.ttft_s, found.ttft_band, words)
        bars.append(TimeBar(label=label, value=value, parts=found.ttft_parts, band=found.ttft_band))
    running = max(1, round(found.load.running))
    value = wording.time_band(found.tpot_s or 0.0, found.tpot_band, words)
    label = words.count("speed.serving.next", running)
    bars.append(TimeBar(label=label, value=value, parts=found.parts, band=found.tpot_band))
    return tuple(bars)


def concurrency_table(plan: Plan, found: ServingSpeed, words: Words) -> Safe:
    """First token, next token and tokens a second by sequences at once, the question's own among them."""
    own = round(found.load.running * found.load.waves * found.load.replicas)
    numbers = sorted({*NUMBERS, *(() if found.load.is_offline else (max(1, own),))})
    head = [words(f"speed.column.{name}") for name in ("sequences", "first", "next", "each", "all")]
    speeds = speed_by_concurrency(plan, tables(), numbers)
    rows = [_row(n, speed, words) for n, speed in zip(numbers, speeds, strict=True)]
    return parts.table(head, rows, name=words("speed.table.by_concurrency"))


def draft_table(drafts: Sequence[DraftSpeed], words: Words) -> Safe:
    """What the draft brings by the share of its tokens that is accepted."""
    head = [words(f"speed.column.{name}") for name in ("accepted", "yield", "next", "gain")]
    rows = [
        [
            percent(row.accepted_frac),
            f"{row.tokens:.2f}",
            wording.seconds(row.token_s, words),
            words("speed.gain", value=f"{row.gain:.2f}"),
        ]
        for row in drafts
    ]
    return parts.table(head, rows, name=words("speed.table.draft"))


def _row(number: int, speed: ServingSpeed, words: Words) -> list[str]:
    first = DASH if speed.ttft_s is None else wording.time_band(speed.ttft_s, speed.ttft_band, words)
    following = DASH if speed.tpot_s is None else wording.time_band(speed.tpot_s, speed.tpot_band, words)
    each = DASH if not speed.tpot_s else wording.three_digits(1 / speed.tpot_s)
    rate = speed.output_tokens_per_s
    all_of_them = DASH if rate is None else wording.rate_band(rate, speed.tokens_band, words)
    return [whole(number), first, following, each, all_of_them]


def parts_table(found: Sequence[Part], words: Words, name: str) -> Safe:
    """The table twin of a bar: every part with its seconds, its share and where its formula is from."""
    total = sum(part.time_s for part in found) or 1.0
    rows = [
        [
            words(f"speed.part.{part.name}"),
            wording.seconds(part.time_s, words),
            percent(part.time_s / total),
            REFERENCES[part.reference].title,
        ]
        for part in found
    ]
    head = [words(f"speed.column.{column}") for column in ("part", "time", "share", "reference")]
    return parts.table(head, rows, name=name, left=(0, 3), wide=(0, 3))


def _lacking(missing: tuple[Unknown, ...], words: Words) -> None:
    st.html(parts.note("tight", parts.bullets(wording.unknown_lines(missing, words))))
