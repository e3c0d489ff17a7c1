"""Topic: memory in tiers, as a KV cache over several memories and as bytes that lie outside the card."""

from typing import Any, Final

import streamlit as st

from planner.ledger import Category
from planner.requests import tiers
from planner.requests.tiers import Placed, TierLoad
from planner.scenario import CacheTier
from planner.units import gib_bytes
from ui import parts
from ui.document import get
from ui.numbers import DASH, gib1, gib2, percent, whole
from ui.requests.fields import WIDTH_PX, own_number, whole_of, write
from ui.requests.question import Question
from ui.state import document
from ui.words import Safe, Words

PLACES: Final = ("gpu", "host", "shared")
READ: Final = (Category.WEIGHTS, Category.KV_CACHE)


def draw(question: Question, words: Words) -> None:
    """The cache's tiers, then the memories that a step reads."""
    _cache(question, words)
    _memories(question, words)


def _cache(question: Question, words: Words) -> None:
    st.html(parts.section(words("requests.tiers.title"), words("requests.tiers.note")))
    with st.container(key="requests_fields", horizontal=True, gap="small", vertical_alignment="bottom"):
        given = {place: _tier(place, question, words) for place in PLACES}
        reused = whole_of(words, "workload.shared_prefix_tokens", question.prompt_tokens, step=128)
    asked = tuple(tier for tier in given.values() if tier is not None)
    found = tiers.cache_loads(
        asked,
        token_bytes=question.served.kv_bytes_per_token,
        reused_tokens=reused,
        gpu=question.gpu,
        links=question.plan.resolved.hardware.links,
        cards_per_node=question.plan.resolved.hardware.devices_per_node or question.cards,
    )
    head = [words(f"requests.tiers.{name}") for name in ("where", "size", "tokens", "hits", "moved", "load")]
    st.html(parts.table(head, [_cache_row(row, words) for row in found], name=words("requests.tiers.title")))
    rest = words.html("requests.tiers.rest", share=percent(tiers.recomputed_frac(asked)))
    st.html(f'<div class="p m">{rest}</div>')


def _cache_row(row: TierLoad, words: Words) -> list[str]:
    tokens = DASH if row.capacity_tokens is None else whole(row.capacity_tokens)
    return [
        words(f"requests.place.{row.where}"),
        gib1(row.capacity_bytes),
        tokens,
        percent(row.hit_frac),
        gib2(row.moved_bytes),
        _milliseconds(row.load_s, words),
    ]


def _tier(place: str, question: Question, words: Words) -> CacheTier | None:
    """Size and hit rate of one tier; both stand in the scenario together."""
    listed = get(document(), "cache_tiers", [])
    mine = next((each for each in listed if isinstance(each, dict) and each.get("where") == place), {})
    size, hits = mine.get("gib"), mine.get("hit_frac")
    if not isinstance(size, int | float):
        size = _pool_gib(question) if place == "gpu" else None
    if not isinstance(hits, int | float):
        hits = 0.0
    keys = f"requests_doc_tier_{place}_gib", f"requests_doc_tier_{place}_hits"
    st.session_state[keys[0]], st.session_state[keys[1]] = (
        (None if size is None else float(size)),
        float(hits),
    )

    def keep() -> None:
        others = [each for each in listed if not (isinstance(each, dict) and each.get("where") == place)]
        new: dict[str, Any] = {
            "where": place,
            "gib": st.session_state[keys[0]],
            "hit_frac": st.session_state[keys[1]],
        }
        kept = [*others, new] if new["gib"] else others
        write("cache_tiers", kept or None)

    name = words(f"requests.place.{place}")
    st.number_input(
        words("requests.field.tier_gib", place=name),
        value=None,
        step=8.0,
        format="%.1f",
        key=keys[0],
        on_change=keep,
        width=WIDTH_PX,
    )
    st.number_input(
        words("requests.field.tier_hits", place=name),
        step=0.05,
        format="%.2f",
        key=keys[1],
        on_change=keep,
        width=WIDTH_PX,
    )
    if size is None or size <= 0:
        return None
    return CacheTier(where=place, gib=float(size), hit_frac=float(hits))  # type: ignore[arg-type]


def _pool_gib(question: Question) -> float | None:
    pool = question.served.kv_pool_bytes
    return round(pool / gib_bytes(1), 1) if pool else None


def _memories(question: Question, words: Words) -> None:
    """Where the bytes of this plan lie when the card is full, and what a step loses by it."""
    st.html(parts.section(words("requests.spill.title"), words("requests.spill.note")))
    with st.container(key="requests_fields_spill", horizontal=True, gap="small", vertical_alignment="bottom"):
        peer = own_number(words, "peer_gib", 0.0, step=8.0, format_="%g")
    worst, host = question.plan.worst, question.plan.resolved.hardware.host_memory_gib
    read = sum(entry.bytes for entry in worst.ledger.entries if entry.category in READ)
    found = tiers.placed(
        worst.peak_bytes,
        min(read, worst.peak_bytes),
        tiers.memories(
            question.gpu,
            question.plan.resolved.hardware.links,
            peer_bytes=gib_bytes(peer) if peer else None,
            host_bytes=None if host is None else gib_bytes(host),
        ),
    )
    head = [words(f"requests.spill.{name}") for name in ("memory", "held", "read", "lost")]
    body = [_memory_row(row, words) for row in found]
    st.html(parts.table(head, body, name=words("requests.spill.title")))
    lost = [row.lost_s for row in found if row.held_bytes]
    total = None if None in lost else sum(each or 0.0 for each in lost)
    key = "requests.spill.all_on_card" if total == 0 else "requests.spill.say"
    say = words.html(key, needs=gib1(worst.peak_bytes), lost=_milliseconds(total, words))
    st.html(f'<div class="p">{say}</div>')


def _memory_row(row: Placed, words: Words) -> list[str]:
    return [
        words(f"requests.memory.{row.name}"),
        gib2(row.held_bytes),
        _milliseconds(row.read_s, words),
        _milliseconds(row.lost_s, words),
    ]


def _milliseconds(seconds: float | None, words: Words) -> Safe:
    if seconds is None:
        return words.html("requests.unknown")
    return words.html("requests.ms", value=f"{seconds * 1000:,.1f}")
