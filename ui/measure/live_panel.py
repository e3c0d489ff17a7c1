"""The page while a measurement runs: a fragment that draws itself twice a second, and only then."""

import streamlit as st

from planner.ledger import Phase
from profiler.compare import comparable
from profiler.events import PhasePeak, Progress
from profiler.job_types import Snapshot
from ui import parts
from ui.answers import answer
from ui.charts import measure_live
from ui.charts.base import CONFIG
from ui.language import current_words
from ui.measure import actions
from ui.measure.jobs import Run
from ui.measure.sizes import decimals_for, duration, size
from ui.numbers import DASH, gib2, whole
from ui.words import Words

LOOK_EVERY_S = 0.5
SILENT_FROM_S = 10.0
CODES = frozenset({"starting", "building", "measuring", "warming_up", "writing", "stopping"})


@st.fragment(run_every=LOOK_EVERY_S)
def draw_live(run: Run, *, mine: bool) -> None:
    """Progress, memory and peaks so far; the whole page is drawn again when the job is over."""
    words = current_words()
    seen = run.job.snapshot()
    if seen.is_over:
        st.rerun()
    _progress(run, seen, words)
    if mine:
        st.button(
            words("measure.start.stop"),
            key="measure_stop",
            disabled=seen.state == "stopping",
            on_click=actions.stop,
            args=(run,),
        )
    with st.container(key="split_live"):
        with st.container(gap="xsmall", key="measure_live_chart"):
            _memory(seen, words)
        with st.container(gap="xsmall", key="measure_live_peaks"):
            _peaks(seen.peaks, _predicted(run), words)


def progress_text(seen: Snapshot, words: Words) -> str:
    """What is going on, in words."""
    progress = seen.progress
    if seen.state == "stopping":
        return words("measure.progress.stopping")
    if progress is None:
        return words("measure.progress.starting")
    code = progress.code if progress.code in CODES else "other"
    return words(
        f"measure.progress.{code}",
        step=whole(progress.step),
        steps=whole(progress.steps),
        phase=_phase(progress, words),
    )


def _phase(progress: Progress, words: Words) -> str:
    return words(f"phase.{progress.phase}.name").lower() if progress.phase else DASH


def _progress(run: Run, seen: Snapshot, words: Words) -> None:
    fraction = seen.progress.fraction if seen.progress is not None else 0.0
    st.progress(fraction, text=progress_text(seen, words))
    limit = duration(run.options.timeout_s, words)
    lines = [words.html("measure.progress.elapsed", elapsed=duration(seen.elapsed_s, words), limit=limit)]
    if seen.silent_s is not None and seen.silent_s >= SILENT_FROM_S:
        lines.append(words.html("measure.progress.silent", seconds=whole(seen.silent_s), limit=limit))
    st.html(f'<div class="p m">{words.sentences(lines)}</div>')


def _memory(seen: Snapshot, words: Words) -> None:
    device = any(sample.device_used_bytes is not None for sample in seen.samples)
    title = "measure.live.title_device" if device else "measure.live.title_host"
    st.html(parts.section(words(title), words("measure.live.note")))
    readings = [each for sample in seen.samples if (each := measure_live.reading_of(sample)) is not None]
    if not readings:
        st.html(f'<div class="empty">{words.html("measure.live.no_reading")}</div>')
        return
    facts = {"now": gib2(readings[-1]), "most": gib2(max(readings))}
    st.plotly_chart(
        measure_live.live_memory(seen.samples, words),
        key="measure_live",
        alt=words("measure.live.alt", **facts),
        theme=None,
        config=CONFIG,
    )
    st.html(f'<div class="p m">{words.html("measure.live.now", **facts)}</div>')


def _predicted(run: Run) -> dict[Phase, int]:
    """What the plan expects this device to count in every phase."""
    plan = answer(run.document).plan
    if plan is None:
        return {}
    ledger, on_cpu = plan.worst.ledger, run.options.device == "cpu"
    return {
        phase: sum(entry.bytes for entry in comparable(ledger, phase, on_cpu=on_cpu))
        for phase in ledger.phases
    }


def _peaks(peaks: tuple[PhasePeak, ...], predicted: dict[Phase, int], words: Words) -> None:
    title = words("measure.live.peaks")
    st.html(parts.section(title, words("measure.live.peaks_note")))
    if not peaks:
        st.html(f'<div class="empty">{words.html("measure.live.none_yet")}</div>')
        return
    most: dict[Phase, int] = {}
    for peak in peaks:
        phase = Phase(peak.phase)
        most[phase] = max(most.get(phase, 0), peak.peak_allocated_bytes)
    decimals = decimals_for(max(most.values()))
    head = [words(f"measure.live.{name}") for name in ("phase", "predicted", "peak")]
    rows = [
        [
            words(f"phase.{phase.value}.name"),
            size(predicted.get(phase), decimals),
            size(most[phase], decimals),
        ]
        for phase in Phase
        if phase in most
    ]
    st.html(parts.table(head, rows, name=title))
