"""What a report says beside sizes: fragmentation, leaks, talk between ranks, and the checklist, each with its state."""

from typing import Final

import streamlit as st

from profiler.findings import Finding, findings
from profiler.report import Report
from ui import parts
from ui.measure.sizes import decimals_for, size
from ui.numbers import DASH, percent, whole
from ui.words import Safe, Words

_TONE: Final = {"good": "ok", "attention": "tight", "unknown": "unknown"}
_ICON: Final = {"good": "✓", "attention": "!", "unknown": "?"}


def draw_findings(report: Report, words: Words) -> None:
    """The section; everything looked at has a row, also what was not measured."""
    title = words("measure.findings.title")
    st.html(parts.section(title, words("measure.findings.note")))
    head = [words(f"measure.findings.{name}") for name in ("state", "what", "said")]
    rows = [finding_row(found, words) for found in findings(report)]
    st.html(parts.table(head, rows, name=title, left=(0, 1), wide=(2,)))


def finding_row(found: Finding, words: Words) -> list[str]:
    """State, what was looked at, and what was found with the setting that would help."""
    tag = Safe(
        f'<span class="tag {_TONE[found.state]}">{_ICON[found.state]}&ensp;'
        f"{words.html(f'measure.findings.is.{found.state}')}</span>"
    )
    return [tag, words(f"measure.findings.topic.{_topic(found)}"), finding_text(found, words)]


def _topic(found: Finding) -> str:
    return found.code if found.topic == "checklist" else found.topic


def finding_text(found: Finding, words: Words) -> Safe:
    """A finding as a sentence, its setting as code."""
    key = f"measure.finding.{found.code}"
    if found.topic == "checklist":
        key = f"measure.check.{found.code}.{found.state}"
    said = words.html(key, **{name: _value(name, value, words) for name, value in found.params.items()})
    setting = words.html("measure.findings.setting", setting=found.setting) if found.setting else Safe("")
    return words.sentences([said, setting] if setting else [said])


def _value(name: str, value: object, words: Words) -> str:
    """A parameter as it is written: sizes with their unit, shares in per cent, the rest plainly."""
    if value is None:
        return DASH
    if isinstance(value, bool | str):
        return str(value)
    if not isinstance(value, int | float):
        return str(value)
    if "bytes" in name:
        return words("measure.nvml.size", size=size(round(value), decimals_for(abs(round(value)))))
    if name.endswith("frac"):
        return percent(float(value))
    if name.endswith("_s"):
        return words("measure.duration.seconds", n=f"{value:.3f}")
    return whole(value)
