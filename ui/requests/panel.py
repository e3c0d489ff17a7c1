"""The section on the Plan page: closed until somebody opens it, and one topic at a time is worked out.

It is a fragment: choosing a topic or changing one of its own fields draws it alone. A field that belongs to the
scenario draws the page, so that the link and the undo list have it.
"""

from collections.abc import Callable
from typing import Final

import streamlit as st

from planner.requests.errors import RequestsInputError
from ui import parts
from ui.answers import answer
from ui.document import Document
from ui.folded import folded
from ui.issue_words import field_name
from ui.language import current_words
from ui.requests import answer_cache, lengths, loads, replicas, sharing, tiers, waiting
from ui.requests.fields import was_edited
from ui.requests.question import Question
from ui.words import Words

Draw = Callable[[Question, Words], None]

TOPICS: Final[dict[str, Draw]] = {
    "at_once": loads.at_once,
    "lengths": lengths.draw,
    "sharing": sharing.draw,
    "prefill": loads.prefill,
    "waiting": waiting.draw,
    "tiers": tiers.draw,
    "answers": answer_cache.draw,
    "replicas": replicas.draw,
}


@st.fragment
def draw_requests(document: Document) -> None:
    """The section.

    Args:
        document: The question that the page answers.
    """
    if was_edited():
        st.rerun()
    words = current_words()
    box = folded("requests", words)
    if box is None:
        return
    plan = answer(document).plan
    with box:
        if plan is None or plan.serving is None:
            return
        first = next(iter(TOPICS))
        chosen = st.segmented_control(
            words("requests.choose"),
            tuple(TOPICS),
            default=first,
            required=True,
            format_func=lambda name: words(f"requests.topic.{name}"),
            key="requests_topic",
            label_visibility="collapsed",
        )
        topic = chosen or first
        st.html(f'<div class="p m">{words.html(f"requests.about.{topic}")}</div>')
        try:
            TOPICS[str(topic)](Question(plan=plan, served=plan.serving), words)
        except RequestsInputError as error:
            st.html(parts.note("bad", _problem(error, words)))


def _problem(error: RequestsInputError, words: Words) -> str:
    leaf = error.field.rpartition(".")[2]
    for key in (f"requests.own.{leaf}", f"requests.field.{leaf}"):
        if words.has(key):
            name = words(key)
            break
    else:
        name = field_name(error.field, words)
    return words.html(
        "requests.problem",
        field=name,
        given=str(error.given),
        allowed=words(f"requests.allowed.{error.allowed}"),
    )
