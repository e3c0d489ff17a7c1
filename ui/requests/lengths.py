"""Topic: blocks against reservations, for a distribution of request lengths."""

import unicodedata
from typing import Any, Final

import streamlit as st

from planner.requests import lengths, reservation
from planner.requests.errors import RequestsInputError
from planner.requests.reservation import Held, Policy
from planner.scenario import LengthDistribution
from ui import parts
from ui.charts import shares
from ui.counts import read_count
from ui.document import get
from ui.numbers import percent, whole
from ui.pages.frame import plot
from ui.requests.fields import WIDTH_PX, own_number, write
from ui.requests.question import Question
from ui.state import document
from ui.words import Words

DRAWN = 4000
PATH = "workload.length_distribution"
KINDS = ("lognormal", "uniform", "list")
START: dict[str, dict[str, Any]] = {
    "lognormal": {"kind": "lognormal", "mean_tokens": 500, "sigma": 1.0},
    "uniform": {"kind": "uniform", "low_tokens": 100, "high_tokens": 2000},
    "list": {"kind": "list", "tokens": [200, 500, 1500]},
}
MOST_LISTED = 1000
MOST_DIGITS: Final = 9
SEPARATORS: Final = {ord(";"): ",", 0x3001: ","}
"""The ideographic comma stands between the items of a Chinese list."""


def draw(question: Question, words: Words) -> None:
    """The distribution, then what each way of taking room makes of it."""
    with st.container(key="requests_fields", horizontal=True, gap="small", vertical_alignment="bottom"):
        given = _distribution(words)
        prompt_percent = own_number(
            words, "prompt_percent", round(100 * lengths.CHAT_PROMPT_FRAC), step=5.0, format_="%g"
        )
    share = (prompt_percent or 0.0) / 100
    if not 0 <= share <= 1:
        raise RequestsInputError("prompt_percent", prompt_percent, "share")
    total = lengths.draw(LengthDistribution.model_validate(given), DRAWN, longest=question.longest)
    block = question.block_tokens
    blocks = tuple(sorted({*reservation.BLOCKS, block}))
    found = reservation.compare(lengths.prompts(total, share), total, longest=question.longest, blocks=blocks)
    own = next(row for row in found if row.block_tokens == block)
    longest = next(row for row in found if row.policy is Policy.LONGEST)
    say = words.html(
        "requests.lengths.say",
        block=whole(block),
        paged=percent(own.used_frac),
        longest=whole(question.longest),
        reserved=percent(longest.used_frac),
        times=f"{longest.held_tokens / own.held_tokens:.1f}",
    )
    st.html(f'<div class="p">{say}</div>')
    bars = [(_name(row, words), row.used_frac, row is own) for row in (own, *found[-2:])]
    plot(shares.shares(bars, words), "requests_lengths", shares.alternative(bars, words))
    head = [words(f"requests.lengths.{name}") for name in ("policy", "used", "held", "requests")]
    pool = question.served.kv_tokens
    body = [
        [_name(row, words), percent(row.used_frac), whole(row.held_tokens), whole(int(row.requests_in(pool)))]
        for row in found
    ]
    st.html(parts.table(head, body, name=words("requests.topic.lengths")))
    note = words.html(
        "requests.lengths.note", n=whole(DRAWN), mean=whole(float(total.mean())), pool=whole(pool)
    )
    st.html(f'<div class="p m">{note}</div>')


def _name(row: Held, words: Words) -> str:
    block = whole(row.block_tokens) if row.block_tokens is not None else ""
    return words(f"requests.policy.{row.policy.value}", block=block)


def _distribution(words: Words) -> dict[str, Any]:
    """The fields of the distribution, written as one block."""
    given = get(document(), PATH)
    current = dict(given) if isinstance(given, dict) and given.get("kind") in KINDS else START["lognormal"]
    key = "requests_doc_kind"
    st.session_state[key] = current["kind"]
    st.selectbox(
        words("requests.field.kind"),
        KINDS,
        format_func=lambda kind: words(f"requests.kind.{kind}"),
        key=key,
        on_change=lambda: write(PATH, START[st.session_state[key]]),
        width=WIDTH_PX,
    )
    for name in START[current["kind"]]:
        if name == "tokens":
            _listed(current, words)
        elif name != "kind":
            _parameter(current, name, words)
    return current


def _parameter(current: dict[str, Any], name: str, words: Words) -> None:
    key = f"requests_doc_{name}"
    value = current.get(name)
    st.session_state[key] = float(value) if isinstance(value, int | float) else None
    st.number_input(
        words(f"requests.field.{name}"),
        value=None,
        step=0.1 if name == "sigma" else 100.0,
        format="%.1f" if name == "sigma" else "%g",
        key=key,
        on_change=lambda: write(PATH, current | {name: st.session_state[key]}),
        width=WIDTH_PX,
    )


def _listed(current: dict[str, Any], words: Words) -> None:
    key = "requests_doc_tokens"
    values = current.get("tokens")
    st.session_state[key] = ", ".join(map(str, values)) if isinstance(values, list) else ""

    def keep() -> None:
        typed = unicodedata.normalize("NFKC", st.session_state[key]).translate(SEPARATORS)
        texts = typed.split(",")[:MOST_LISTED]
        write(PATH, current | {"tokens": [_whole(text) for text in texts if text.strip()]})

    st.text_input(words("requests.field.tokens"), key=key, on_change=keep, max_chars=4000, width=2 * WIDTH_PX)


def _whole(text: str) -> int | str:
    """A number as typed; what is none stays text, so that the planner says what is allowed."""
    text = text.strip()
    count = read_count(text)
    return count if count is not None and len(str(count)) <= MOST_DIGITS else text
