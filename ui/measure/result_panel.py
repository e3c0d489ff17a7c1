"""The page with a result: the course of memory, what explains the gap, part by part, phase by phase, readings."""

from statistics import fmean
from typing import Final

import streamlit as st

from planner.ledger import Category, Phase
from profiler.compare import PhaseComparison
from profiler.report import Report, StorageNote, dump_report
from ui import parts
from ui.charts import measure_parts, measure_steps
from ui.charts.base import CONFIG
from ui.measure import wording
from ui.measure.result import ELSE, Pair, Result, stands_out, total
from ui.measure.sizes import decimals_for, error, gap, part, size
from ui.numbers import DASH, TIMES, whole
from ui.words import Safe, Words

CLOSE_FRAC: Final = 0.01


def draw_first_row(result: Result, words: Words) -> None:
    """The course of memory."""
    number = measure_steps.num_steps(result.report)
    if not number:
        st.html(parts.section(words.count("measure.steps.title", 1)))
        st.html(f'<div class="empty">{words.html("measure.steps.empty")}</div>')
        return
    usable = None if result.on_cpu else result.report.readings.total_bytes
    low = measure_steps.axis_from(result, usable)
    note = words("measure.steps.note_cut", low=f"{low:.3g}") if low > 0 else words("measure.steps.note")
    st.html(parts.section(words.count("measure.steps.title", number), note))
    st.plotly_chart(
        measure_steps.memory_over_steps(result, words, usable),
        key="measure_steps",
        alt=measure_steps.alternative(result, words),
        theme=None,
        config=CONFIG,
    )


def draw_gaps(result: Result, words: Words) -> None:
    """Entries by what they add to the difference."""
    title = words("measure.gap.title")
    phase = wording.phase_name(result.peak, words).lower() if result.peak is not None else DASH
    st.html(parts.section(title, words("measure.gap.note", phase=phase)))
    if not result.gaps:
        st.html(f'<div class="empty">{words.html("measure.gap.none")}</div>')
        return
    decimals = decimals_for(result.headline.measured_bytes)
    head = [words(f"measure.gap.{name}") for name in ("entry", "predicted", "measured", "gap")]
    rows = [_gap_row(pair, result.gaps, decimals, words) for pair in result.gaps]
    rows.append([Safe(f"<b>{cell}</b>") for cell in _sum_row(total(result.gaps), decimals, words)])
    st.html(parts.table(head, rows, name=title))
    left_out = _left_out(result, decimals, words)
    if left_out:
        st.html(f'<div class="p m">{left_out}</div>')


def _gap_row(pair: Pair, pairs: tuple[Pair, ...], decimals: int, words: Words) -> list[str]:
    written: str = gap(pair.gap_bytes, decimals)
    if stands_out(pair, pairs):
        written = Safe(f'<span class="tight">{written}</span>')
    return [
        words("measure.bundle.else" if pair.name == ELSE else f"measure.bundle.{pair.name}"),
        part(pair.predicted_bytes, decimals),
        part(pair.measured_bytes, decimals),
        written,
    ]


def _sum_row(pair: Pair, decimals: int, words: Words) -> list[str]:
    return [
        words("measure.gap.sum"),
        size(pair.predicted_bytes, decimals),
        size(pair.measured_bytes, decimals),
        gap(pair.gap_bytes, decimals),
    ]


def _left_out(result: Result, decimals: int, words: Words) -> Safe | None:
    compared = result.phase(result.peak) if result.peak is not None else None
    if compared is None or not compared.left_out:
        return None
    entries = words.listed(
        words("measure.gap.left_out_entry", entry=words(f"entry.{name}"), gib=size(left_bytes, decimals))
        for name, left_bytes, _ in compared.left_out
    )
    return words.html("measure.gap.left_out", entries=entries)


def draw_parts(result: Result, words: Words) -> None:
    """Differences by category."""
    st.html(parts.section(words("measure.parts.title"), words("measure.parts.note")))
    if not result.parts:
        st.html(f'<div class="empty">{words.html("measure.gap.none")}</div>')
        return
    decimals = decimals_for(result.headline.measured_bytes)
    st.plotly_chart(
        measure_parts.part_bars(result.parts, words, decimals),
        key="measure_parts",
        alt=measure_parts.alternative(result.parts, words, decimals),
        theme=None,
        config=CONFIG,
    )


def draw_phases(result: Result, words: Words) -> None:
    """Every phase: predicted, measured, how far apart, how long, what differs most."""
    title = words("measure.phases.title")
    st.html(parts.section(title, words("measure.phases.note")))
    names = ("phase", "predicted", "measured", "gap", "share", "time", "largest")
    decimals = decimals_for(result.headline.measured_bytes)
    rows = [_phase_row(figures.phase, result, decimals, words) for figures in result.report.phases]
    head = [words(f"measure.phases.{name}") for name in names]
    st.html(parts.table(head, rows, name=title, left=(6,)))


def _phase_row(name: str, result: Result, decimals: int, words: Words) -> list[str]:
    phase = Phase(name)
    figures, compared = result.report.figures(phase), result.phase(phase)
    measured = figures.peak_allocated_bytes if figures is not None else None
    predicted = compared.total.predicted_bytes if compared is not None else None
    pair = Pair(name=name, predicted_bytes=predicted, measured_bytes=measured)
    time_s = figures.time_s if figures is not None else 0.0
    return [
        wording.phase_name(phase, words),
        size(predicted, decimals),
        size(measured, decimals),
        gap(pair.gap_bytes, decimals),
        error(pair.error_frac),
        words("measure.duration.seconds", n=f"{time_s:.2f}") if time_s else DASH,
        _largest_difference(compared, pair, words),
    ]


def _largest_difference(compared: PhaseComparison | None, pair: Pair, words: Words) -> str:
    if compared is None or pair.error_frac is None:
        return DASH
    if abs(pair.error_frac) <= CLOSE_FRAC or not compared.bundles:
        return words("measure.phases.close")
    return words(f"measure.bundle.{compared.bundles[0].name}")


def draw_readings(result: Result, words: Words) -> None:
    """What was read beside the steps, and why something was not."""
    report = result.report
    st.html(parts.section(words("measure.nvml.title"), words.count("measure.nvml.note", len(report.samples))))
    head = [words(f"measure.nvml.{name}") for name in ("reading", "mean", "peak")]
    st.html(parts.table(head, _reading_rows(report, words), name=words("measure.nvml.title")))
    for text in _reading_notes(result, words):
        st.html(f'<div class="empty">{words.html("measure.nvml.remark", text=text)}</div>')


def _reading_rows(report: Report, words: Words) -> list[list[str]]:
    readings = report.readings
    columns = {
        "device": ([sample.device_used_bytes for sample in report.samples], readings.peak_bytes),
        "process": ([sample.process_bytes for sample in report.samples], readings.process_peak_bytes),
        "resident": ([sample.resident_bytes for sample in report.samples], readings.resident_peak_bytes),
    }
    rows = []
    for name, (samples, peak) in columns.items():
        known = [sample for sample in samples if sample is not None]
        mean = words("measure.nvml.size", size=size(round(fmean(known)), 2)) if known else DASH
        highest = words("measure.nvml.size", size=size(peak, 2)) if peak is not None else DASH
        rows.append([words(f"measure.nvml.{name}"), mean, highest])
    for name, value in (("before", readings.before_bytes), ("idle", readings.idle_bytes)):
        if value is not None:
            shown = words("measure.nvml.size", size=size(value, 2))
            rows.append([words(f"measure.nvml.{name}"), shown, DASH])
    return rows


def _reading_notes(result: Result, words: Words) -> list[str]:
    report = result.report
    if result.on_cpu:
        return [words("measure.nvml.no_nvml")]
    notes = []
    if report.readings.process_peak_bytes is None and report.readings.peak_bytes is not None:
        notes.append(words("measure.reason.pid_not_listed"))
    notes += [wording.remark_text(remark, words) for remark in report.remarks if remark.code == "not_read"]
    return notes


def draw_more(result: Result, words: Words) -> None:
    """Folded away: the largest tensors, and what PyTorch itself writes about its allocator."""
    report, peak = result.report, result.peak
    figures = report.figures(peak) if peak is not None else None
    if figures is not None and figures.largest:
        with st.expander(words("measure.more.largest"), key="measure_largest"):
            names = ("size", "what", "module", "op", "shape", "made_in")
            head = [words(f"measure.more.{name}") for name in names]
            rows = [_storage_row(note, words) for note in figures.largest]
            st.html(parts.table(head, rows, name=words("measure.more.largest"), left=(1, 2, 3, 4, 5)))
    if report.memory_summary:
        with st.expander(words("measure.more.summary"), key="measure_summary"):
            st.code(report.memory_summary, language=None)


def _storage_row(note: StorageNote, words: Words) -> list[str]:
    made_in = f"phase.{note.made_in}.name"
    shape = f" {TIMES} ".join(map(whole, note.shape))
    category = Category(note.category)
    return [
        size(note.bytes, decimals_for(note.bytes)),
        Safe(f"{parts.swatch(category)}{words.html(f'category.{category.value}')}"),
        note.module or DASH,
        note.op or DASH,
        f"{shape} {note.dtype}".strip() or DASH,
        words(made_in) if words.has(made_in) else DASH,
    ]


def download(report: Report, words: Words) -> None:
    """The report as a file."""
    st.download_button(
        words("measure.report.download"),
        data=lambda: dump_report(report),
        file_name="headroom-report.json",
        mime="application/json",
        key="measure_download",
        on_click="ignore",
    )
