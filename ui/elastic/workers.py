"""Workers that join and leave: closed until somebody opens it."""

import json
from functools import lru_cache
from typing import Final

import streamlit as st

from planner.elastic import Elastic, Workers, elastic
from planner.validation import parse_scenario
from ui import answers, parts, verdict
from ui.document import Document, canonical, get, put
from ui.folded import folded
from ui.issue_words import issue_html
from ui.kept_runs import Stamp, stamp
from ui.language import current_words
from ui.numbers import DASH, gib1, signed_gib, whole
from ui.state import edit
from ui.whole import FORMAT
from ui.words import Safe, Words

REMEMBERED: Final = 32
MOST_WORKERS: Final = 65_536
FIELD_PX: Final = 154
_EDITED: Final = "elastic_edited"


@st.fragment
def draw_elastic(document: Document) -> None:
    """The section.

    Args:
        document: A question that can be planned.
    """
    if st.session_state.pop(_EDITED, False):
        st.rerun()
    words = current_words()
    box = folded("elastic", words)
    if box is None:
        return
    with box:
        found = _elastic(canonical(document), stamp())
        st.html(f'<div class="p m">{words.html("elastic.note")}</div>')
        if found.refusal is not None:
            st.html(parts.note("tight", words.html(f"elastic.refusal.{found.refusal}")))
            return
        _range(document, found, words)
        st.html(f'<div class="p">{summary(found, words)}</div>')
        head = [words(f"elastic.head.{name}") for name in ("workers", "cards", "needs", "headroom", "fits")]
        head += [words(f"elastic.head.{name}") for name in ("speed", "batch", "accumulation")]
        rows = [row_cells(row, found, words) for row in found.rows]
        st.html(parts.table(head, rows, name=words("elastic.title"), left=(4,)))


@lru_cache(maxsize=REMEMBERED)
def _elastic(text: str, _kept: Stamp) -> Elastic:
    scenario, _ = parse_scenario(json.loads(text))
    if scenario is None:
        raise ValueError("a section of a plan was given a document without one")
    return elastic(scenario, answers.tables_for(scenario))


def _range(document: Document, found: Elastic, words: Words) -> None:
    """The fewest and the most workers, kept in the question."""
    low, high = found.rows[0].data, found.rows[-1].data
    with st.container(horizontal=True, gap="small"):
        for name, value in (("min_data", low), ("max_data", high)):
            key = f"elastic_{name}"
            st.session_state[key] = float(get(document, f"elastic.{name}", value))
            st.number_input(
                words(f"elastic.{name}"),
                min_value=1.0,
                max_value=float(MOST_WORKERS),
                step=1.0,
                format=FORMAT,
                key=key,
                on_change=_keep,
                args=(low, high),
                width=FIELD_PX,
            )


def _keep(low: int, high: int) -> None:
    """The typed range in order, whichever end was typed."""
    ends = [st.session_state.get("elastic_min_data", low), st.session_state.get("elastic_max_data", high)]
    first, last = sorted(round(end) for end in ends)
    edit(lambda old: put(old, "elastic", {"min_data": first, "max_data": last}))
    st.session_state[_EDITED] = True


def summary(found: Elastic, words: Words) -> Safe:
    """Where it stops fitting."""
    most = found.rows[-1].data
    if found.fewest is None:
        return words.html("elastic.never", most=whole(most))
    if found.fewest == found.rows[0].data:
        return words.html("elastic.always", fewest=whole(found.fewest), most=whole(most))
    return words.html("elastic.from", fewest=whole(found.fewest), most=whole(most))


def row_cells(row: Workers, found: Elastic, words: Words) -> list[str]:
    """One number of workers."""
    name = whole(row.data)
    name = words("elastic.asked", n=name) if row.data == found.asked else name
    if row.plan is None:
        said = issue_html(row.issue, words) if row.issue is not None else Safe(DASH)
        return [name, whole(row.cards), DASH, DASH, said, DASH, DASH, DASH]
    worst = row.plan.worst
    speed = DASH if row.tokens_per_s is None else whole(row.tokens_per_s)
    return [
        name,
        whole(row.cards),
        gib1(worst.peak_bytes),
        DASH if worst.headroom_bytes is None else signed_gib(worst.headroom_bytes),
        verdict.tag(row.plan.verdict, words),
        speed,
        DASH if row.step_tokens is None else whole(row.step_tokens),
        whole(row.accumulation),
    ]
