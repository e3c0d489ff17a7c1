"""Rows of different length: what padding and packing cost this job. Closed until somebody opens it."""

from typing import Final

import streamlit as st

from planner.padding import Batches, Way, ways
from planner.plan_types import Plan
from planner.requests.lengths import draw
from planner.scenario import LengthDistribution
from ui import parts
from ui.answers import answer
from ui.document import Document, put
from ui.folded import folded
from ui.language import current_words
from ui.numbers import DASH, gib1, percent, whole
from ui.whole import FORMAT
from ui.words import Safe, Words

DRAWN: Final = 4000
FIELD_PX: Final = 154
SPREAD: Final = 0.8
"""A spread of the logarithm as instruction data have it; a choice."""
MOST_SPREAD: Final = 3.0
SHARE_OF_LIMIT: Final = 4
"""The mean that the field begins with: a quarter of the limit; a choice."""


@st.fragment
def draw_padding(document: Document) -> None:
    """The section.

    Args:
        document: A question that trains and can be planned.
    """
    words = current_words()
    box = folded("padding", words)
    plan = answer(document).plan
    if box is None or plan is None:
        return
    with box:
        st.html(f'<div class="p m">{words.html("padding.note")}</div>')
        limit = plan.resolved.training.sequence_length
        mean, spread = _fields(limit, words)
        found = batches(mean, spread, plan)
        head = [words(f"padding.head.{name}") for name in ("way", "wasted", "time", "longest", "needs")]
        st.html(
            parts.table(
                head, [row(one, found[0], document, words) for one in found], name=words("padding.title")
            )
        )


def batches(mean: float, spread: float, plan: Plan) -> tuple[Batches, ...]:
    """Every way for rows of such lengths, in the plan's batches."""
    training = plan.resolved.training
    drawn = {"kind": "lognormal", "mean_tokens": mean, "sigma": spread}
    lengths = draw(LengthDistribution.model_validate(drawn), DRAWN, longest=training.sequence_length)
    return ways(lengths, batch=training.micro_batch, limit=training.sequence_length)


def row(one: Batches, static: Batches, document: Document, words: Words) -> list[str]:
    """A way: what it wastes, how long it takes against static padding, and what its longest batch needs."""
    changed = answer(put(document, "training.sequence_length", one.longest_row)).plan
    return [
        Safe(f"<b>{words.html(f'padding.way.{one.way.value}')}</b>"),
        percent(one.wasted_frac),
        DASH if one.way is Way.STATIC else percent(one.computed_tokens / static.computed_tokens),
        whole(one.longest_row),
        DASH if changed is None else gib1(changed.worst.peak_bytes),
    ]


def _fields(limit: int, words: Words) -> tuple[float, float]:
    with st.container(horizontal=True, gap="small"):
        mean = st.number_input(
            words("padding.mean"), min_value=1.0, max_value=float(limit), step=16.0,
            value=float(max(1, limit // SHARE_OF_LIMIT)), format=FORMAT, key=f"padding_mean_{limit}", width=FIELD_PX,
        )  # fmt: skip
        spread = st.number_input(
            words("padding.spread"), min_value=0.0, max_value=MOST_SPREAD, value=SPREAD, step=0.1, key="padding_spread",
            width=FIELD_PX,
        )  # fmt: skip
    return float(mean), float(spread)
