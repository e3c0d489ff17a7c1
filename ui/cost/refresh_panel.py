"""The panel that fetches prices: which sources, what was taken of each, what was kept out and why."""

from datetime import date
from typing import Final

import streamlit as st

from hardware_db.refresh import SOURCES, KeptOut, Refresh, Source, SourceReport, State
from ui import parts
from ui.cost.money import day
from ui.cost.refreshed import fetch, forget, problem_code, refreshed
from ui.numbers import DASH, whole
from ui.words import Safe, Words

MOST_EXAMPLES: Final = 3
TONES: Final = {State.READ: "ok", State.PARTIAL: "tight", State.FAILED: "bad"}


def draw_refresh(words: Words) -> None:
    """The choice of sources, the button, and the report of the last refresh."""
    st.html(f'<div class="p m">{words.html("cost.refresh.note")}</div>')
    labels = {source.id: words(f"cost.refresh.source.{source.id}") for source in SOURCES}
    chosen = st.pills(
        words("cost.refresh.sources"),
        list(labels),
        selection_mode="multi",
        default=[source.id for source in SOURCES if source.by_default],
        format_func=lambda source_id: labels[source_id],
        key="refresh_sources",
        persist_state="session",
    )
    with st.container(key="quiet_refresh", horizontal=True, gap="small", vertical_alignment="center"):
        asked = st.button(words("cost.refresh.button"), key="refresh_now", disabled=not chosen)
        if refreshed() is not None:
            st.button(words("cost.refresh.forget"), type="tertiary", key="refresh_forget", on_click=forget)
    if asked:
        _ask(chosen, labels, words)
        st.rerun()
    if problem_code():
        text = words.html(f"cost.refresh.file.{problem_code()}")
        st.html(f'<div class="msg bad" role="alert">{text}</div>')
    found = refreshed()
    if found is not None:
        _report(found, labels, words)


def _ask(chosen: list[str], labels: dict[str, str], words: Words) -> None:
    """Fetch with a line about the source that is being read."""
    with st.status(words("cost.refresh.running")) as status:

        def on_start(source: Source) -> None:
            status.update(label=words("cost.refresh.reading", source=labels[source.id]))

        fetch(chosen, on_start)


def _report(found: Refresh, labels: dict[str, str], words: Words) -> None:
    taken = words.count("cost.offers", len(found.offers))
    when = day(found.made_at[:10], words)
    st.html(f'<div class="p">{words.html("cost.refresh.made", date=when, offers=taken)}</div>')
    title = words("cost.refresh.title")
    head = [words(f"cost.refresh.head.{name}") for name in ("source", "state", "taken", "kept", "other")]
    rows = [_row(report, labels, words) for report in found.reports]
    st.html(parts.table(head, rows, name=title, left=(1,), wide=(1,)))
    lines = [
        _kept_line(labels.get(report.source, report.source), kept, words)
        for report in found.reports
        for kept in report.kept_out
    ]
    if lines:
        st.html(f'<div class="p m">{words.html("cost.refresh.kept_title")}{parts.bullets(lines)}</div>')


def _row(report: SourceReport, labels: dict[str, str], words: Words) -> list[str]:
    name = labels.get(report.source, report.source)
    kept = sum(one.count for one in report.kept_out)
    counts = [whole(n) if n else DASH for n in (report.taken, kept, report.passed_over)]
    return [name, _state(report, words), *counts]


def _state(report: SourceReport, words: Words) -> Safe:
    text = words.html(f"cost.refresh.state.{report.state.value}")
    marked = Safe(f'<span class="{TONES[report.state]}">{text}</span>')
    if report.problem:
        why = words.html(f"cost.refresh.problem.{report.problem}", detail=report.detail)
        said = words.html("cost.refresh.because", state=marked, why=why)
        older = words.count("cost.offers", report.older)
        return words.html("cost.refresh.older", said=said, offers=older) if report.older else said
    if report.dated:
        return words.html("cost.refresh.dated", state=marked, date=_day(report.dated, words))
    return marked


def _day(text: str, words: Words) -> str:
    """A day that a source wrote, as people write it; as it stands where it is none."""
    try:
        return day(date.fromisoformat(text).isoformat(), words)
    except ValueError:
        return text


def _kept_line(source: str, kept: KeptOut, words: Words) -> Safe:
    shown = words.clauses(
        words("cost.refresh.example", name=name or DASH, given=given)
        for name, given in kept.examples[:MOST_EXAMPLES]
    )
    rest = kept.count - min(MOST_EXAMPLES, len(kept.examples))
    if rest > 0:
        shown = words("cost.refresh.more", examples=shown, n=whole(rest))
    reason = words(f"cost.refresh.kept.{kept.code}")
    return words.html(
        "cost.refresh.kept_line", source=source, reason=reason, n=whole(kept.count), examples=shown
    )
