"""The states of the page in sentences: what happened, and what to do."""

from datetime import datetime
from typing import Final

from planner.ledger import Layer, Phase
from profiler.documents import Param, Remark
from profiler.job_types import Snapshot
from profiler.report import Report
from ui.compare.values import option_text, written_text
from ui.counts import short_count
from ui.issue_words import field_name
from ui.measure.jobs import ABANDON_AFTER_S, Run
from ui.measure.machine import Here, Spot
from ui.measure.result import EQUAL_FRAC, FAIR_FRAC, GOOD_FRAC, Pair, Result
from ui.measure.sizes import decimals_for, duration, error, size, unsigned_error
from ui.measure.states import State
from ui.measure.view import View
from ui.numbers import DASH, gib1, whole
from ui.words import Safe, Words

TONES: Final = {
    State.READY: ("unknown", "○"),
    State.RUNNING: ("unknown", "●"),
    State.STOPPING: ("unknown", "●"),
    State.BUSY: ("tight", "!"),
    State.NO_PYTORCH: ("tight", "!"),
    State.REFUSED: ("tight", "!"),
    State.TOO_LARGE: ("bad", "✕"),
    State.STOPPED: ("unknown", "■"),
    State.ABANDONED: ("unknown", "■"),
}
ENDED: Final = ("bad", "✕")


def device_name(spot: Spot, words: Words) -> str:
    """A device inside a sentence."""
    return spot.name or words(f"measure.device.{spot.kind}")


def clock_time(text: str) -> str:
    """`18:47 UTC` from an ISO 8601 time; the text itself where it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def title(view: View, words: Words) -> Safe:
    """The headline of a state without a result."""
    state, spot = view.state, view.spot
    name = device_name(spot, words)
    if state is State.TOO_LARGE:
        needed = gib1(view.prepared.needed_bytes)
        if spot.free_bytes is None:
            return words.html("measure.title.too_large_unknown", needed=needed)
        return words.html("measure.title.too_large", needed=needed, free=gib1(spot.free_bytes))
    if state is State.MEMORY_LIMIT:
        limit = view.run.options.memory_limit_bytes if view.run is not None else None
        if limit is None:
            return words.html("measure.title.memory_limit_unknown")
        return words.html("measure.title.memory_limit", limit=gib1(limit))
    if state is State.TIMEOUT and view.run is not None:
        return words.html("measure.title.timeout", limit=duration(view.run.options.timeout_s, words))
    if state is State.BUSY:
        return words.html(
            "measure.title.busy", device=name if spot.name else words("measure.device.cpu_start")
        )
    return words.html(f"measure.title.{state.value}", device=name)


def tag(state: State, words: Words) -> Safe:
    """Icon, word and tint of a state without a result."""
    tone, icon = TONES.get(state, ENDED)
    return tag_of(tone, icon, words(f"measure.tag.{state.value}"))


def tag_of(tone: str, icon: str, word: str) -> Safe:
    """A tag."""
    return Safe(f'<span class="tag {tone}">{icon}&ensp;{word}</span>')


def why(view: View, words: Words, *, has_copy: bool) -> Safe:
    """What happened and what to do, in a state without a result."""
    state = view.state
    if state is State.READY:
        return _why_ready(view, words)
    if state is State.REFUSED and not has_copy:
        return words.html("measure.why.refused_alone")
    if state is State.BUSY and view.run is not None:
        return words.html(
            "measure.why.busy", who=who(view.run, words), time=clock_time(view.run.job.started_at)
        )
    if state is State.CRASHED and view.seen is not None:
        return _why_crashed(view.seen, words)
    detail = view.seen.detail if view.seen is not None else ""
    return words.html(f"measure.why.{state.value}", seconds=whole(ABANDON_AFTER_S), detail=detail)


def who(run: Run, words: Words) -> str:
    """Whose run it is, as far as this page can say."""
    return words("measure.who.at", address=run.address) if run.address else words("measure.who.here")


def _why_ready(view: View, words: Words) -> Safe:
    if view.spot.kind == "cuda":
        return words.html("measure.why.ready_cuda")
    if view.here.no_cuda:
        return words.html("measure.why.ready_cpu", reason=no_cuda(view.here, words))
    return words.html("measure.why.ready_cpu_chosen")


def _why_crashed(seen: Snapshot, words: Words) -> Safe:
    if seen.report_problem:
        return words.html("measure.why.crashed_report", detail=seen.report_problem)
    if seen.signal:
        return words.html("measure.why.crashed_signal", signal=seen.signal)
    return words.html("measure.why.crashed_code", code=seen.exit_code)


def no_cuda(here: Here, words: Words) -> str:
    """Why no card of this machine can be used."""
    return reason(here.no_cuda, words)


def reason(code: str, words: Words) -> str:
    """A reason of the driver."""
    key = f"measure.reason.{code}"
    return words(key) if words.has(key) else words("measure.reason.other", code=code)


def refusal_rows(remarks: tuple[Remark, ...], words: Words) -> list[list[str]]:
    """Field with the reason below it, what was asked, what it can be."""
    return [
        [
            words.html(
                "measure.refusals.row", field=field_name(remark.field, words), why=_remark(remark, words)
            ),
            _option(remark.field, remark.params.get("given"), words),
            _option(remark.field, remark.params.get("allowed"), words),
        ]
        for remark in remarks
    ]


def remark_text(remark: Remark, words: Words) -> str:
    """A remark of a report as a sentence."""
    if remark.code == "not_read":
        what = f"measure.remark.what.{remark.params.get('what')}"
        return words(
            "measure.remark.not_read",
            what=words(what) if words.has(what) else remark.params.get("what"),
            reason=reason(str(remark.params.get("reason")), words),
        )
    return _remark(remark, words)


def _remark(remark: Remark, words: Words) -> str:
    key = f"measure.remark.{remark.code}"
    if not words.has(key):
        return words("measure.remark.other", code=remark.code)
    return words(key, **{"detail": "", **remark.params})


def _option(field: str, value: Param, words: Words) -> str:
    """A value of a field by its name in the form, a dash for none."""
    if value in (None, ""):
        return DASH
    return written_text(field, value, words) if isinstance(value, str) else option_text(field, value, words)


def result_title(result: Result, words: Words) -> Safe:
    """Measured, predicted, how far apart."""
    pair = result.headline
    decimals = decimals_for(pair.measured_bytes)
    measured = size(pair.measured_bytes, decimals)
    if result.report.outcome == "out_of_memory":
        return _out_of_memory_title(result, words)
    if pair.error_frac is None:
        return words.html("measure.title.done_alone", measured=measured)
    if abs(pair.error_frac) < EQUAL_FRAC / 2:
        return words.html("measure.title.done_equal", measured=measured)
    return words.html(
        "measure.title.done",
        measured=measured,
        predicted=size(pair.predicted_bytes, decimals),
        error=unsigned_error(pair.error_frac),
        side=words("measure.side.high" if pair.error_frac > 0 else "measure.side.low"),
    )


def _out_of_memory_title(result: Result, words: Words) -> Safe:
    where, measured = result.report.out_of_memory, result.headline.measured_bytes
    if where is None or where.step == 0 or measured is None:
        return words.html("measure.title.out_of_memory_early")
    phase = phase_while(where.phase, words)
    return words.html("measure.title.out_of_memory", phase=phase, measured=gib1(measured))


def result_tag(result: Result, words: Words) -> Safe:
    """How good the prediction was: by its band on a card, by its error otherwise."""
    if result.report.outcome == "out_of_memory":
        return tag_of("bad", "✕", words("measure.tag.out_of_memory"))
    if result.in_band is not None:
        word = words("measure.tag.in_band" if result.in_band else "measure.tag.outside_band")
        return tag_of("ok", "✓", word) if result.in_band else tag_of("bad", "✕", word)
    error_frac = result.headline.error_frac
    if error_frac is None:
        return tag_of("unknown", "?", words("measure.tag.alone"))
    for limit, tone, icon, name in ((GOOD_FRAC, "ok", "✓", "good"), (FAIR_FRAC, "tight", "!", "fair")):
        if abs(error_frac) <= limit:
            return tag_of(tone, icon, words(f"measure.tag.{name}"))
    return tag_of("bad", "✕", words("measure.tag.poor"))


def result_why(result: Result, words: Words) -> Safe:
    """What agrees, and what does not."""
    if result.plan is None or result.comparison is None:
        return words.html("measure.why.alone")
    if result.report.outcome == "out_of_memory":
        return _out_of_memory_why(result, words)
    equal = [pair for pair in result.parts if _equal(pair, result)]
    sentences = []
    if result.expected is not None and result.peak is not None and result.expected is not result.peak:
        came, expected = phase_while(result.peak.value, words), phase_while(result.expected.value, words)
        sentences.append(words.html("measure.why.other_phase", came=came, expected=expected))
    if len(equal) == len(result.parts):
        return words.sentences([*sentences, words.html("measure.why.all_equal")])
    if equal:
        names = [words(f"part.{pair.name}") for pair in equal]
        listed = words.both(names)
        key = "measure.why.equal_one" if len(equal) == 1 else "measure.why.equal"
        sentences.append(words.html(key, parts=words.opening(listed)))
    largest = result.gaps[0]
    if largest.gap_bytes:
        key = "measure.why.one_more" if largest.gap_bytes > 0 else "measure.why.one_less"
        decimals = decimals_for(result.headline.measured_bytes)
        entry = words(f"measure.bundle.{largest.name}")
        sentences.append(words.html(key, entry=entry, gib=size(abs(largest.gap_bytes), decimals)))
    return words.sentences(sentences)


def _equal(pair: Pair, result: Result) -> bool:
    """Whether a part's difference is small beside the whole peak."""
    return abs(pair.gap_bytes or 0) <= EQUAL_FRAC * (result.headline.measured_bytes or 0)


def _out_of_memory_why(result: Result, words: Words) -> Safe:
    if result.plan is None:
        return words.html("measure.why.alone")
    needed, total = result.plan.worst.peak_bytes, result.report.readings.total_bytes
    usable = total - (result.report.readings.before_bytes or 0) if total is not None else None
    if usable is not None and needed > usable:
        return words.html("measure.why.out_of_memory_expected", needed=gib1(needed), usable=gib1(usable))
    return words.html("measure.why.out_of_memory_missed", needed=gib1(needed))


def strip(result: Result, words: Words) -> list[tuple[Safe, Safe, Safe]]:
    """Four layers and the step time; what is missing is a dash with its reason."""
    decimals = decimals_for(result.headline.measured_bytes)
    cells = [_layer_cell(layer, result, decimals, words) for layer in Layer]
    return [*cells, _time_cell(result.report, words)]


def _layer_cell(layer: Layer, result: Result, decimals: int, words: Words) -> tuple[Safe, Safe, Safe]:
    pair = result.layers[layer]
    label = words.html(f"measure.strip.{layer.value}")
    measured = pair.measured_bytes
    if result.on_cpu and layer is Layer.PROCESS:
        measured = result.report.readings.resident_peak_bytes
    if measured is None:
        return label, Safe(DASH), words.html(_missing(layer, on_cpu=result.on_cpu))
    value = words.html("measure.strip.value", value=size(measured, decimals))
    if result.on_cpu and layer is Layer.PROCESS:
        return label, value, words.html("measure.strip.host_memory")
    if layer is Layer.DEVICE and result.report.readings.before_bytes is not None:
        held = size(result.report.readings.before_bytes, decimals)
        return label, value, words.html("measure.strip.others_held", size=held)
    if pair.predicted_bytes is None:
        return label, value, words.html("measure.strip.unpredicted")
    predicted = size(pair.predicted_bytes, decimals)
    return (
        label,
        value,
        words.html("measure.strip.beside", predicted=predicted, error=error(pair.error_frac)),
    )


def _missing(layer: Layer, *, on_cpu: bool) -> str:
    if on_cpu:
        return "measure.strip.no_allocator" if layer is Layer.RESERVED else "measure.strip.no_card"
    return "measure.strip.not_listed" if layer is Layer.PROCESS else "measure.strip.not_read"


def step_seconds(report: Report) -> float | None:
    """Mean time of a measured step, None if none was finished."""
    steps: dict[int, float] = {}
    for time in report.steps:
        steps[time.step] = steps.get(time.step, 0.0) + time.time_s
    return sum(steps.values()) / len(steps) if steps else None


def _time_cell(report: Report, words: Words) -> tuple[Safe, Safe, Safe]:
    label, seconds = words.html("measure.strip.time"), step_seconds(report)
    if seconds is None:
        return label, Safe(DASH), Safe("")
    number = len({time.step for time in report.steps})
    tracked = any(remark.code == "times_include_tracking" for remark in report.remarks)
    below = "measure.strip.with_tracking" if tracked else "measure.strip.mean"
    value = words.html("measure.strip.seconds", value=f"{seconds:.2f}")
    return label, value, words.html(below, n=whole(number))


def before_strip(view: View, steps: int, words: Words) -> list[tuple[Safe, Safe, Safe]]:
    """What a start would take and what is there."""
    prepared, spot, plan = view.prepared, view.spot, view.plan
    decimals = decimals_for(prepared.predicted_bytes)
    phase, _ = plan.worst.ledger.peak(Layer.ALLOCATED)
    more = prepared.needed_bytes - prepared.predicted_bytes
    free = Safe(DASH)
    if spot.free_bytes is not None:
        free = words.html("measure.strip.value", value=gib1(spot.free_bytes))
    return [
        (
            words.html("measure.strip.predicted"),
            words.html("measure.strip.value", value=size(prepared.predicted_bytes, decimals)),
            words.html("measure.strip.predicted_of", phase=phase_while(phase.value, words)),
        ),
        (
            words.html("measure.strip.needed"),
            words.html("measure.strip.value", value=size(prepared.needed_bytes, decimals)),
            words.html(f"measure.strip.needed_{spot.kind}", more=size(more, decimals)),
        ),
        (words.html("measure.strip.free"), free, _free_below(spot, words)),
        (
            words.html("measure.strip.params"),
            Safe(short_count(plan.model.params_total, words)),
            words.html("measure.strip.layers", n=whole(plan.model.num_layers)),
        ),
        (
            words.html("measure.strip.steps"),
            Safe(whole(steps)),
            words.html("measure.strip.steps_below", n=whole(1)),
        ),
    ]


def _free_below(spot: Spot, words: Words) -> Safe:
    if spot.free_bytes is None:
        return words.html("measure.strip.free_unknown")
    if spot.taken_bytes is not None:
        return words.html("measure.strip.others", taken=gib1(spot.taken_bytes))
    if spot.total_bytes is not None:
        return words.html("measure.strip.free_of", total=gib1(spot.total_bytes))
    return words.html("measure.strip.free_cpu")


def phase_name(phase: Phase, words: Words) -> str:
    """A phase's name."""
    return words(f"phase.{phase.value}.name")


def phase_while(phase: str, words: Words) -> str:
    """A phase as a time, inside a sentence: `in the backward pass`."""
    text = words(f"phase.{phase}.while")
    return words.inside(text)


def foot(report: Report, words: Words) -> Safe:
    """Where and how it was measured."""
    where, options = report.environment, report.options
    text = words.html(
        "measure.foot.environment",
        device=where.device_name,
        torch=where.torch,
        transformers=where.transformers,
        python=where.python,
        system=where.system,
        warmup=whole(options.warmup_steps),
        steps=whole(options.steps),
        threads=whole(where.threads),
        time=clock_time(report.created_at),
    )
    if where.driver:
        driver = words.html("measure.foot.driver", driver=where.driver, cuda=where.cuda or DASH)
        return words.sentences([text, driver])
    return text
