"""Topics whose rows are real plans: sequences at once, and the step of a prompt."""

import streamlit as st

from planner.plan_types import Verdict
from planner.requests import chunks, concurrency
from planner.requests.concurrency import Row
from planner.throughput.serving_speed import ServingSpeed
from planner.throughput.types import SpeedBand
from ui import answers, parts, verdict
from ui.numbers import DASH, gib1, gib2, signed_gib, whole
from ui.requests.fields import whole_of
from ui.requests.question import PROMPT_TOKENS, Question
from ui.requests.speed import speeds
from ui.words import Safe, Words

MOST_ROWS = 12
COLUMNS = ("sequences", "kv", "needs", "headroom", "verdict", "first", "following", "tokens")


def at_once(question: Question, words: Words) -> None:
    """Caches and fit at 1, 4, 8, ... sequences."""
    numbers = sorted({*concurrency.STEPS, question.sequences})[:MOST_ROWS]
    rows = concurrency.table(question.plan.scenario, answers.tables(), numbers)
    fitting = [row.sequences for row in rows if row.verdict is Verdict.FITS]
    say = (
        words.html(
            "requests.at_once.most", n=whole(max(fitting)), context=whole(question.served.context_tokens)
        )
        if fitting
        else words.html("requests.at_once.none")
    )
    st.html(f'<div class="p">{say}</div>')
    timed = speeds(question, tuple(row.sequences for row in rows))
    head = [words(f"requests.at_once.{name}") for name in COLUMNS]
    st.html(
        parts.table(
            head,
            [_row(row, speed, words) for row, speed in zip(rows, timed, strict=True)],
            name=words("requests.topic.at_once"),
            left=(4,),
        )
    )
    known = "note" if timed[0].tpot_s is not None else "note_unknown"
    st.html(f'<div class="p m">{words.html(f"requests.at_once.{known}")}</div>')


def _row(row: Row, speed: ServingSpeed, words: Words) -> list[str]:
    if row.verdict is None:
        return [whole(row.sequences), DASH, DASH, DASH, words("requests.at_once.refused"), DASH, DASH, DASH]
    left = DASH if row.headroom_bytes is None else signed_gib(row.headroom_bytes)
    times = _times(speed, words)
    kind, icon = verdict.TAG[row.verdict]
    word = words.html(f"verdict.word.{row.verdict.value}")
    tag = Safe(f'<span class="{kind}">{icon} {word}</span>')
    return [whole(row.sequences), gib2(row.kv_bytes), gib1(row.needs_bytes), left, tag, *times]


def _times(speed: ServingSpeed, words: Words) -> list[str]:
    """First token, next token and tokens a second with their bands; a dash where the tables lack a figure."""
    rate, band = speed.output_tokens_per_s, speed.tokens_band
    ends = None if rate is None or band is None else (rate / band.high_frac, rate / band.low_frac)
    return [
        _banded(speed.ttft_s, _ends(speed.ttft_band), 1, 2, words),
        _banded(speed.tpot_s, _ends(speed.tpot_band), 1000, 0, words),
        _banded(rate, ends, 1, 0, words),
    ]


def _ends(band: SpeedBand | None) -> tuple[float, float] | None:
    return None if band is None else (band.low_s, band.high_s)


def _banded(
    value: float | None, ends: tuple[float, float] | None, scale: float, decimals: int, words: Words
) -> Safe:
    if value is None:
        return Safe(DASH)
    texts = [f"{number * scale:,.{decimals}f}" for number in (value, *(ends or ()))]
    if ends is None:
        return Safe(texts[0])
    between = words.html("speed.range", low=texts[1], high=texts[2])
    return Safe(f'{texts[0]}<br><span class="m">{between}</span>')


def prefill(question: Question, words: Words) -> None:
    """Working memory and steps by the size of a step."""
    with st.container(key="requests_fields", horizontal=True, gap="small", vertical_alignment="bottom"):
        prompt = whole_of(words, "workload.prompt_tokens", PROMPT_TOKENS, step=256)
    rows = chunks.by_size(question.plan.scenario, answers.tables(), prompt_tokens=prompt)
    if not rows:
        st.html(f'<div class="p m">{words.html("requests.prefill.none")}</div>')
        return
    first, last = rows[0], rows[-1]
    st.html(
        f'<div class="p">{_prefill_sentence(first, last, words)}</div>'
        if first.working_bytes != last.working_bytes
        else f'<div class="p">{words.html("requests.prefill.same", gib=gib1(first.working_bytes))}</div>'
    )
    head = [words(f"requests.prefill.{name}") for name in ("tokens", "working", "pool", "steps")]
    body = [
        [
            whole(row.tokens),
            gib2(row.working_bytes),
            DASH if row.pool_bytes is None else gib2(row.pool_bytes),
            whole(row.steps),
        ]
        for row in rows
    ]
    st.html(parts.table(head, body, name=words("requests.topic.prefill")))
    st.html(f'<div class="p m">{words.html("requests.prefill.note")}</div>')


def _prefill_sentence(first: chunks.Chunk, last: chunks.Chunk, words: Words) -> Safe:
    return words.html(
        "requests.prefill.say",
        small=whole(first.tokens),
        less=gib1(first.working_bytes),
        large=whole(last.tokens),
        more=gib1(last.working_bytes),
        steps=words.count("requests.prefill.times", first.steps),
    )
