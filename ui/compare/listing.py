"""The saved list as drawn: save, open, lay beside, rename, delete and put back."""

from typing import Any, Final

import streamlit as st

from planner.plan_types import Plan
from ui import parts, verdict
from ui.answers import answer
from ui.compare import shelf
from ui.compare.choosing import LETTERS, choose
from ui.compare.shelf import Shelf
from ui.compare.values import cards, model_name
from ui.dates import day_of
from ui.document import Document
from ui.numbers import gib1
from ui.saved import LONGEST_NAME, Entry
from ui.state import edit
from ui.words import Safe, Words

PAGE: Final = 8
_MARKUP: Final = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]()<>#+-.!|~$:&"})


def draw_saved(document: Document, plan: Plan, found: Shelf, words: Words) -> None:
    """The list below the comparison."""
    number = len(found.entries)
    st.html(parts.section(words.count("saved.title", number) if number else words("saved.empty_title")))
    _messages(found, words)
    _save_row(document, plan, words)
    if not found.entries:
        st.html(f'<div class="p m">{words.html("saved.none")}</div>')
    pages = -(-len(found.entries) // PAGE)
    first = 0
    if pages > 1:
        first = PAGE * (min(int(st.session_state.get("saved_page") or 1), pages) - 1)
    for entry in found.entries[first : first + PAGE]:
        _row(entry, words, session=entry.id in found.session_ids)
    if pages > 1:
        st.pagination(pages, key="saved_page")
    st.html(f'<div class="foot">{words.html("saved.where", path=found.folder)}</div>')


def proposed_name(plan: Plan, words: Words) -> str:
    """What a scenario is called when the user gives it no name."""
    asked = plan.resolved
    task = words(f"task.{asked.task}.name")
    return words("saved.proposed", task=task, model=model_name(plan, words), cards=cards(plan))[:LONGEST_NAME]


def as_markdown(text: str) -> str:
    """Text that Streamlit shows as it is where it reads Markdown."""
    return text.translate(_MARKUP)


def _messages(found: Shelf, words: Words) -> None:
    if found.problem is not None:
        code, detail = found.problem
        text = words.html(f"saved.problem.{code}", detail=detail)
        st.html(parts.note("bad", Safe(f'<span role="alert">{text}</span>')))
    if found.set_aside is not None:
        st.html(parts.note("tight", words.html("saved.set_aside", file=found.set_aside)))
    if found.deleted is not None:
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="saved_deleted"):
            st.html(parts.note("", words.html("saved.deleted", name=found.deleted.name)), width="content")
            st.button(words("saved.put_back"), key="put_back", on_click=shelf.put_back)


def _save_row(document: Document, plan: Plan, words: Words) -> None:
    proposal = proposed_name(plan, words)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="save_row"):
        st.text_input(
            words("saved.name"), key="save_name", max_chars=LONGEST_NAME, placeholder=proposal, width=420
        )
        st.button(words("saved.save"), key="save", on_click=_save, args=(document, proposal))


def _row(entry: Entry, words: Words, *, session: bool) -> None:
    shown = as_markdown(entry.name)
    with st.container(key=f"savedrow_{entry.id}"):
        st.html(_row_html(entry, words, session=session))
        with st.container(horizontal=True, wrap=False, vertical_alignment="center", gap="small"):
            st.button(
                words("saved.open", name=shown),
                key=f"open_{entry.id}",
                on_click=edit,
                args=(lambda _: entry.document,),
            )
            for letter in LETTERS:
                st.button(
                    words("saved.as_letter", letter=letter, name=shown),
                    key=f"as_{letter}_{entry.id}",
                    on_click=choose,
                    args=(letter, f"saved:{entry.id}"),
                )
            with st.popover(
                words("saved.more_help", name=shown),
                type="tertiary",
                key=f"gpumore_saved_{entry.id}",
                help=words("saved.more_help", name=shown),
            ):
                _more(entry, words)


def _more(entry: Entry, words: Words) -> None:
    key = f"rename_{entry.id}"
    st.text_input(words("saved.rename"), value=entry.name, max_chars=LONGEST_NAME, key=key)
    st.button(words("saved.rename_do"), key=f"rename_do_{entry.id}", on_click=_rename, args=(entry.id, key))
    st.button(words("saved.delete"), key=f"delete_{entry.id}", on_click=shelf.delete, args=(entry,))


def _row_html(entry: Entry, words: Words, *, session: bool) -> str:
    plan = answer(entry.document).plan
    when = words("saved.session") if session else day_of(entry.saved_at, words)
    name = words.html("saved.entry", name=entry.name)
    if plan is None:
        below = words.html("saved.row_bad", when=when)
        return f'<div class="fix"><span>{name}</span><span></span><span class="s">{below}</span></div>'
    worst = plan.worst
    needs: Any = (
        words.html("saved.needs_unknown", needs=gib1(worst.peak_bytes))
        if worst.usable_bytes is None
        else words.html("saved.needs", needs=gib1(worst.peak_bytes), usable=gib1(worst.usable_bytes))
    )
    kind = verdict.TAG[plan.verdict][0]
    word = words.html(f"verdict.word.{plan.verdict.value}")
    below = words.html("saved.row", when=when, sentence=verdict.scenario_sentence(plan, words))
    return (
        f'<div class="fix"><span>{name}</span><span class="n">{needs}</span>'
        f'<span class="s">{below}</span><span class="s r {kind}">{word}</span></div>'
    )


def _save(document: Document, proposal: str) -> None:
    name = str(st.session_state.get("save_name") or "").strip() or proposal
    shelf.save(name, document)
    st.session_state["save_name"] = ""


def _rename(entry_id: str, key: str) -> None:
    shelf.rename(entry_id, str(st.session_state.get(key) or ""))
