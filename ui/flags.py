"""Flags to copy: the command that starts the planned server."""

import streamlit as st

from planner.exports.serving_flags import command_for
from planner.plan_types import Plan
from ui import parts
from ui.issue_words import field_name
from ui.words import Safe, Words


def draw_flags(plan: Plan, words: Words) -> None:
    """A closed section with the command, a file where the engine reads one, and what the user must see to."""
    command = command_for(plan)
    if command is None:
        return
    with st.expander(words("flags.title"), key="flags"):
        if command.file_name:
            st.html(parts.section(words("flags.file", name=command.file_name)))
            st.code(command.file_text, language=None)
        if command.text:
            st.html(parts.section(words("flags.command")))
            st.code(command.text, language=None)
        if command.remarks:
            items = parts.bullets(_remark(code, value, words) for code, value in command.remarks)
            st.html(f'<div class="p m">{items}</div>')


def _remark(code: str, value: str, words: Words) -> Safe:
    named = words(f"format.{value}") if words.has(f"format.{value}") else value
    if code == "no_flag":
        named = field_name(value, words)
    return words.html(f"flags.remark.{code}", value=named)
