"""Topic: a cache of answers in front of the model."""

import streamlit as st

from planner.requests import answer_cache
from ui import parts
from ui.numbers import DASH, percent, signed, whole
from ui.requests.fields import own_number, real_of
from ui.requests.question import Question
from ui.requests.speed import estimate
from ui.words import Words

CLAIMED_FRAC = 0.38


def draw(question: Question, words: Words) -> None:
    """Hits and times from the user, then requests, first token and replicas."""
    guess = estimate(question)
    with st.container(key="requests_fields", horizontal=True, gap="small", vertical_alignment="bottom"):
        rate = real_of(words, "workload.requests_per_s", 2.0, step=0.5)
        hits = (own_number(words, "hit_percent", 25.0, step=5.0, format_="%g") or 0.0) / 100
        local = (own_number(words, "local_percent", 80.0, step=5.0, format_="%g") or 0.0) / 100
        local_ms = own_number(words, "local_ms", 0.5, step=0.1, format_="%.1f") or 0.0
        store_ms = own_number(words, "store_ms", 10.0, step=1.0, format_="%.1f") or 0.0
        first_ms = own_number(words, "first_ms", guess.first_ms, step=10.0, format_="%.0f")
        capacity = own_number(words, "capacity", guess.capacity_per_s, step=0.5, format_="%.2f")
    found = answer_cache.with_cache(
        requests_per_s=rate,
        hit_frac=hits,
        local_frac=local,
        local_s=local_ms / 1000,
        store_s=store_ms / 1000,
        model_first_token_s=None if first_ms is None else first_ms / 1000,
        capacity_per_s=capacity,
    )
    unknown = words("requests.unknown")
    first = (
        unknown
        if found.first_token_s is None
        else words("requests.ms", value=f"{found.first_token_s * 1000:,.0f}")
    )
    change = "" if found.first_token_frac is None else f"{signed(100 * found.first_token_frac, 0)}\u00a0%"
    replicas = unknown if found.replicas is None else whole(found.replicas)
    before = (
        ""
        if found.replicas_without is None
        else words("requests.answers.before", n=whole(found.replicas_without))
    )
    st.html(
        parts.strip(
            [
                (
                    words("requests.answers.left"),
                    f"{found.model_requests_per_s:.2f}",
                    words("requests.answers.per_s"),
                ),
                (words("requests.answers.first"), first, change),
                (words("requests.answers.replicas"), replicas, before),
            ]
        )
    )
    st.html(f'<div class="p m">{_claim(first_ms, local, hits, local_ms, store_ms, words)}</div>')


def _claim(
    first_ms: float | None, local: float, hits: float, local_ms: float, store_ms: float, words: Words
) -> str:
    """The hit rate that a claimed reduction takes."""
    needed = DASH
    if first_ms:
        lookup = 1000 * answer_cache.lookup_s(hits, local, local_ms / 1000, store_ms / 1000)
        if lookup <= first_ms:
            needed = percent(min(1.0, answer_cache.hits_for(CLAIMED_FRAC, lookup / first_ms)))
    key = "requests.answers.claim" if needed != DASH else "requests.answers.claim_unknown"
    return words.html(key, claimed=percent(CLAIMED_FRAC), needed=needed)
