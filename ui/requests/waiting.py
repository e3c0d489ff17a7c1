"""Topic: a queue in front of the model, as throughput against waiting."""

from collections.abc import Callable
from typing import Final

import streamlit as st

from planner.requests import queue
from planner.requests.queue import Waited
from ui import parts
from ui.charts import waiting as chart
from ui.document import get
from ui.numbers import percent
from ui.pages.frame import plot
from ui.requests.fields import WIDTH_PX, own_number, real_of, whole_of, write
from ui.requests.question import ANSWER_TOKENS, Question
from ui.requests.speed import estimate
from ui.state import document
from ui.words import Words

REQUESTS: Final = 300
LOADS: Final = (0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 1.0)
"""Arrivals as a share of what full steps of a way carry."""
MOST_AT_ONCE: Final = 256


def draw(question: Question, words: Words) -> None:
    """Times of a step from the user, then each way of batching."""
    guess = estimate(question)
    with st.container(key="requests_fields", horizontal=True, gap="small", vertical_alignment="bottom"):
        alone = own_number(words, "step_ms", guess.step_ms, step=1.0, format_="%.1f")
        further = own_number(words, "further_ms", guess.further_ms, step=0.1, format_="%.2f")
        whole_of(words, "workload.output_tokens", ANSWER_TOKENS, step=64)
        delay = real_of(words, "batching.max_delay_ms", 100.0, step=10.0, format_="%g")
        preferred = _preferred(words)
        rate = real_of(words, "workload.requests_per_s", 2.0, step=0.5)
    if alone is None:
        st.html(f'<div class="p m">{words.html("requests.waiting.unknown")}</div>')
        return
    step = queue.linear_step(alone / 1000, (further or 0.0) / 1000)
    most = max(1, min(MOST_AT_ONCE, question.sequences))
    ways = _ways(step, question.answer_tokens, most, delay / 1000, preferred)
    full = {
        way: queue.capacity_per_s(step, 1 if way == "alone" else most, question.answer_tokens) for way in ways
    }
    curves = {
        way: [run(queue.arrivals(full[way] * load, REQUESTS)) for load in LOADS] for way, run in ways.items()
    }
    plot(chart.waiting(curves, words), "requests_waiting", chart.alternative(curves, words))
    times = queue.arrivals(rate, REQUESTS)
    head = [
        words(f"requests.waiting.{name}")
        for name in ("way", "carried", "wait", "p95", "answer", "batch", "busy")
    ]
    body = [[words(f"requests.way.{way}"), *_cells(run(times))] for way, run in ways.items()]
    st.html(parts.section(words("requests.waiting.at", rate=f"{rate:g}"), ""))
    st.html(parts.table(head, body, name=words("requests.topic.waiting")))
    note = words.html("requests.waiting.note", n=REQUESTS, most=most, full=f"{full['continuous']:.2f}")
    said = words.sentences([note, words.html("requests.waiting.estimated")])
    st.html(f'<div class="p m">{said}</div>')


def _ways(
    step: queue.StepTime, tokens: int, most: int, delay_s: float, preferred: tuple[int, ...]
) -> dict[str, Callable[[list[float]], Waited]]:
    return {
        "alone": lambda times: queue.dynamic(times, step, answer_tokens=tokens, most=1, max_delay_s=0.0),
        "dynamic": lambda times: queue.dynamic(
            times, step, answer_tokens=tokens, most=most, max_delay_s=delay_s, preferred=preferred
        ),
        "continuous": lambda times: queue.continuous(times, step, answer_tokens=tokens, most=most),
    }


def _cells(found: Waited) -> list[str]:
    return [
        f"{found.throughput_per_s:.2f}",
        f"{found.mean_wait_s:.2f}",
        f"{found.p95_wait_s:.2f}",
        f"{found.mean_latency_s:.2f}",
        f"{found.mean_batch:.1f}",
        percent(found.busy_frac),
    ]


def _preferred(words: Words) -> tuple[int, ...]:
    """Preferred batch sizes, as a list of numbers."""
    found = get(document(), "batching.preferred", [])
    listed = tuple(value for value in found if isinstance(value, int) and value > 0)
    key = "requests_doc_preferred"
    st.session_state[key] = ", ".join(map(str, listed))

    def keep() -> None:
        texts = (text.strip() for text in st.session_state[key].split(","))
        sizes = [int(text) for text in texts if text.isdecimal() and 0 < len(text) < 6 and int(text)]
        write(
            "batching", {"max_delay_ms": get(document(), "batching.max_delay_ms", 100.0), "preferred": sizes}
        )

    st.text_input(words("requests.field.preferred"), key=key, on_change=keep, max_chars=200, width=WIDTH_PX)
    return listed
