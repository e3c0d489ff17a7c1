"""The Plan page: does it fit, why, and what would change it."""

import time

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from planner.issues import Severity
from planner.plan_types import Plan, ServingAnswer, Verdict
from ui import clips, parts, tables, verdict
from ui.changes import Outcome, first_that_fits, outcomes
from ui.charts import fit_map, gpu_bars, phases, waterfall
from ui.compare.values import written_text
from ui.effects import effects
from ui.elastic.trial import draw_trial
from ui.elastic.workers import draw_elastic
from ui.examples import story_of
from ui.files import draw_files
from ui.fix_row import fix_row
from ui.flags import draw_flags
from ui.issue_words import field_name, issue_html
from ui.limits import fit_grid, largest_micro_batch, largest_sequence
from ui.mixed.panel import draw_mixed
from ui.moves import draw_moves
from ui.numbers import DASH, gib1, gib2, percent, ranges, whole
from ui.padding import draw_padding
from ui.pages.frame import Frame, draw_form, plot, take_in
from ui.recompute import draw_recompute
from ui.requests.panel import draw_requests
from ui.share import draw_share
from ui.speed.panel import draw_speed
from ui.state import link_issues
from ui.trace.panel import draw_trace
from ui.words import Safe, Words
from ui.worked import worked_html

MOST_PANELS = 6
WIDE_PANELS = 2
BUDGETS = {"sglang": "static", "sglang_omni": "static", "tensorrt_llm": "left"}
"""How an engine words its share of the card, where it is not a share of everything."""
LONGEST_FORMULA = 44
"""A longer one is shown in the working alone."""
HEAD_START_S = 0.12
"""Server and browser share the processor: the browser draws the bars before it is given the rest to work on."""


def draw() -> None:
    """Draw the page: first what an edit is made for, then the form, then the rest.

    An edit waits for the verdict and the bars alone; everything else arrives while they are looked at.
    """
    frame = take_in()
    if frame.plan is None:
        draw_form(frame)
        _nothing_yet(frame)
        return
    plan, words = frame.plan, frame.words
    found = outcomes(frame.document, plan)
    few = len(plan.devices) <= WIDE_PANELS
    with st.container(key="stale" if frame.stale else "current"):
        share, problems = _verdict(frame, plan, found)
        st.html(parts.strip(verdict.strip(plan, words)))
        with st.container(key="split"):
            left, right = st.container(key="half_left"), st.container(key="half_right")
            bars = left.container(key="bars", gap="xsmall")
            with bars:
                _bars(plan, words)
            changes = right.container(key="changes", gap="xsmall")
        panels = bars if few else st.container(key="phases", gap="xsmall")
        time.sleep(HEAD_START_S)
        draw_form(frame)
        with share:
            draw_share(frame)
        with problems:
            _problems(frame)
        with panels:
            _phases(plan, words, wide=few)
        with changes:
            _changes(frame, plan, found)
        _second_row(frame, plan, halves=(left, right) if few else None)
        _effects(frame, plan)
        draw_speed(plan, words)
        with st.container(key="numbers", gap="xsmall"):
            st.html(parts.section(words("plan.numbers.title"), words("plan.numbers.note")))
            _table(plan, words)
            _working(plan, words)
        with st.container(key="closer", gap="xsmall"):
            _closer(frame, plan)
        draw_trace(frame.document)
        st.html(f'<div class="foot">{verdict.known_line(plan, words)}</div>')


def _nothing_yet(frame: Frame) -> None:
    """The first question had errors, so there is no chart to keep."""
    words = frame.words
    st.html(parts.headline(words.html("stale.first")))
    _problems(frame)
    draw_mixed(frame.desk.document)


def _verdict(frame: Frame, plan: Plan, found: tuple[Outcome, ...]) -> tuple[DeltaGenerator, DeltaGenerator]:
    """The sentence and its reason.

    Returns:
        The places of the Share menu and of problems, which are known once the form has shown its own.
    """
    words = frame.words
    with st.container(key="verdict", gap=None):
        with st.container(key="top", horizontal=True, wrap=False, vertical_alignment="center", gap="small"):
            st.html(f'<div class="scn">{verdict.scenario_sentence(plan, words)}</div>', width="stretch")
            share = st.container(width="content")
        best = first_that_fits(found)
        sentence = verdict.headline(plan, words)
        reason = verdict.why(plan, found, best, words)
        st.html(
            f'{parts.headline(sentence)}<p class="why">{verdict.tag(plan.verdict, words)}&ensp;{reason}</p>'
        )
    problems = st.container()
    story = story_of(frame.document)
    if story is not None and words.has(f"story.{story}.outcome"):
        st.html(parts.note("", words.html(f"story.{story}.outcome")))
    return share, problems


def _problems(frame: Frame) -> None:
    """Errors that keep the last chart, a link not read whole, and warnings that no field has shown."""
    words = frame.words
    opened = link_issues()
    if opened:
        tone = "bad" if any(issue.severity is Severity.ERROR for issue in opened) else "tight"
        items = Safe("<br>".join(issue_html(issue, words) for issue in opened))
        st.html(parts.note(tone, items))
    errors = frame.desk.answer.errors
    if errors:
        items = parts.bullets(issue_html(issue, words) for issue in errors)
        head = words.html("stale.note" if frame.plan is not None else "stale.mend")
        st.html(parts.note("bad", Safe(f'<span role="alert">{head}</span>{items}')))
        return
    rest = [
        i for i in frame.desk.answer.issues if i.severity is Severity.WARNING and i not in frame.desk.shown
    ]
    if rest:
        st.html(parts.note("tight", parts.bullets(issue_html(issue, words) for issue in rest)))


def _bars(plan: Plan, words: Words) -> None:
    st.html(parts.section(words("bars.title"), words("bars.note")))
    plot(gpu_bars.gpu_bars(plan, words), "gpu_bars", gpu_bars.alternative(plan, words))
    shown = len(gpu_bars.shown_groups(plan))
    st.html(
        parts.legend(
            gpu_bars.categories_at_peak(plan),
            words,
            capacity=any(device.usable_bytes is not None for device in plan.devices),
            band=any(device.band is not None for device in plan.devices),
        )
    )
    if shown < len(plan.devices):
        cut = words.html("bars.cut", shown=whole(shown), all=whole(len(plan.devices)))
        st.html(f'<div class="p m">{cut}</div>')


def _phases(plan: Plan, words: Words, *, wide: bool) -> None:
    groups = gpu_bars.shown_groups(plan, MOST_PANELS)
    cut = len(groups) < len(plan.devices)
    note = words("phases.note_cut", shown=len(groups), all=len(plan.devices)) if cut else words("phases.note")
    key = "phases.title" if plan.resolved.is_training else "phases.title_serving"
    st.html(parts.section(words(key), note))
    top = phases.top_of(plan)
    st.html(phases.panels(groups, words, top=top, wide=wide))


def _changes(frame: Frame, plan: Plan, found: tuple[Outcome, ...]) -> None:
    words = frame.words
    st.html(parts.section(words("changes.title"), words("changes.note")))
    best = first_that_fits(found) if plan.verdict is not Verdict.FITS else None
    for i, outcome in enumerate(found):
        fix_row(outcome, words, key=str(i), primary=outcome is best)
    if not found:
        st.html(f'<div class="p m">{words.html("changes.none")}</div>')
    _largest(frame, plan)


def _largest(frame: Frame, plan: Plan) -> None:
    words = frame.words
    st.html(parts.section(words("largest.title"), words("largest.note")))
    if plan.serving is not None and plan.model.latents is not None:
        many = whole(int(plan.serving.concurrency))
        key = "clips_undecoded" if clips.undescribed(plan) else clips.sort_of(plan.model.latents)
        st.html(f'<div class="p">{words.html(f"largest.{key}", pictures=many)}</div>')
        return
    if plan.serving is not None:
        served = plan.serving
        body = words.html(
            "largest.serving",
            longest=whole(served.longest_context_tokens),
            sequences=whole(int(served.concurrency)),
            context=whole(served.context_tokens),
            per_token=whole(served.kv_bytes_per_token),
        )
        reserves = _reserves(plan, served, words)
        st.html(f'<div class="p">{body}</div><div class="p">{reserves}</div>')
        return
    sequence, batch = largest_sequence(frame.document, plan), largest_micro_batch(frame.document, plan)
    if not sequence and not batch:
        st.html(f'<div class="p m">{words.html("largest.nothing")}</div>')
        return
    asked = plan.resolved.training
    body = words.html(
        "largest.training",
        sequence=whole(sequence) if sequence else DASH,
        limit=words("largest.model_limit") if sequence == plan.model.max_position_embeddings else "",
        batch=whole(batch) if batch else DASH,
        at_batch=whole(asked.micro_batch),
        at_sequence=whole(asked.sequence_length),
    )
    st.html(f'<div class="p">{body}</div>')
    if clips.undescribed(plan):
        st.html(f'<div class="p m">{words.html("largest.clips_unencoded")}</div>')


def _reserves(plan: Plan, served: ServingAnswer, words: Words) -> Safe:
    """What the load needs against what the engine takes, and why."""
    sizes = {"needs": gib1(served.needs_bytes), "reserves": gib1(served.reserves_bytes)}
    share = plan.resolved.serving.memory_utilization
    if served.budget_bytes is None or share is None or not served.kv_pool_bytes:
        return words.html("largest.reserves", **sizes)
    form = BUDGETS.get(plan.resolved.runtime.name, "budget")
    return words.html(
        f"largest.reserves_{form}",
        engine=words(f"runtime.{plan.resolved.runtime.name}"),
        share=percent(share),
        pool=gib1(served.kv_pool_bytes),
        tokens=whole(served.kv_tokens),
        **sizes,
    )


def _second_row(frame: Frame, plan: Plan, halves: tuple[DeltaGenerator, DeltaGenerator] | None) -> None:
    """The largest entries and the fit map: in a row of their own, or below what the page's halves hold already."""
    words = frame.words
    grid = fit_grid(frame.document, plan)
    if halves is None:
        row = st.container(key="split2")
        halves = row, row
    left, right = halves
    with left.container(key="entries", gap="xsmall"):
        _largest_entries(plan, words)
    if grid is None:
        return
    with right.container(key="fitmap", gap="xsmall"):
        axes = "map.note" if plan.resolved.is_training else "map.note_serving"
        axes = axes if grid.current is not None else "map.note_full_length"
        st.html(parts.section(words("map.title"), words(axes)))
        st.html(fit_map.fit_map(grid, words))


def _largest_entries(plan: Plan, words: Words) -> None:
    """The terms that make the peak of the fullest card, largest first."""
    worst = plan.worst
    gpu = verdict.gpu_name(worst, words)
    st.html(parts.section(words("entries.title", gpu=gpu), words("entries.note")))
    rows = []
    for entry in worst.ledger.alive(worst.peak_phase)[:6]:
        name = Safe(f"{parts.swatch(entry.category)}{words.html(f'entry.{entry.name}')}")
        worked: str = words("entries.long")
        if len(entry.formula) <= LONGEST_FORMULA:
            worked = worked_html(
                entry.formula, entry.symbols, between="&emsp;", meaning=tables.meanings(entry, words)
            )
        rows.append([name, worked, gib2(entry.bytes)])
    st.html(
        parts.table(
            [words("working.entry"), words("working.formula"), words("working.gib")],
            rows,
            name=words("entries.title", gpu=gpu),
            wide=(1,),
        )
    )


def _effects(frame: Frame, plan: Plan) -> None:
    """The way from the plain job to this one, a technique at a time."""
    words, found = frame.words, effects(frame.document, plan)
    if found is None:
        return
    with st.expander(words("waterfall.title"), key="effects"):
        st.html(f'<div class="p m">{words.html("waterfall.note")}</div>')
        st.html(waterfall.waterfall(found, words))


def _closer(frame: Frame, plan: Plan) -> None:
    """Further questions about this plan, each folded away."""
    words = frame.words
    st.html(parts.section(words("plan.closer.title"), words("plan.closer.note")))
    with st.container(key="rows_closer", gap=None):
        draw_mixed(frame.desk.document)
        if plan.serving is not None and plan.model.latents is None:
            draw_requests(frame.document)
            draw_flags(plan, words)
        draw_moves(plan, words)
        if plan.resolved.is_training:
            draw_recompute(frame.document)
            draw_padding(frame.document)
            draw_elastic(frame.document)
            draw_trial(frame.document)
        draw_files(frame.document, plan, words)


def _table(plan: Plan, words: Words) -> None:
    head = tables.gpu_head(plan, words)
    cards = sum(len(device.indices) for device in plan.devices)
    title = words(
        "table.title",
        cards=words.count("table.cards", cards),
        parts=words.count("table.parts", len(head) - 5),
    )
    with st.expander(title, key="table", expanded=True):
        st.html(parts.table(head, tables.gpu_rows(plan, words), name=title, left=(1,)))
        st.download_button(
            words("table.csv"),
            data=lambda: tables.gpu_csv(plan),
            file_name="headroom-memory.csv",
            mime="text/csv",
            key="csv",
            type="tertiary",
            on_click="ignore",
        )


def _working(plan: Plan, words: Words) -> None:
    groups = {ranges(device.indices): device for device in plan.devices}
    worst = plan.worst
    title = words(
        "working.title",
        gpu=verdict.gpu_name(worst, words),
        entries=words.count("working.entries", len(worst.ledger.entries)),
    )
    with st.expander(title, key="working"):
        device = worst
        if len(groups) > 1:
            chosen = st.selectbox(
                words("working.choose"),
                list(groups),
                index=plan.fullest,
                format_func=lambda name: verdict.gpu_name(groups[name], words),
                key=f"working_gpu_{len(groups)}",
                width=220,
            )
            device = groups.get(chosen, worst)
        st.html(
            parts.table(
                tables.working_head(words),
                tables.working_rows(device, words),
                name=title,
                left=(4,),
                wide=(0, 1, 5),
                stacked=True,
            )
        )
        if plan.defaults:
            st.html(
                parts.section(
                    words("defaults.title"),
                    words("defaults.note", runtime=words(f"runtime.{plan.resolved.runtime.name}")),
                )
            )
            rows = [
                [field_name(path, words), written_text(path, value, words)] for path, value in plan.defaults
            ]
            st.html(
                parts.table(
                    [words("defaults.field"), words("defaults.value")],
                    rows,
                    name=words("defaults.title"),
                    left=(1,),
                )
            )
