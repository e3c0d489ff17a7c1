"""A trace in sentences: how far it agrees with the formulas, what becomes of it on a card, how it ended."""

from typing import Final

from planner.ledger import Layer, Phase
from profiler.documents import Remark
from profiler.job_types import Snapshot
from ui.compare.values import written_text
from ui.issue_words import field_name
from ui.measure.result import FAIR_FRAC, GOOD_FRAC, Pair
from ui.measure.sizes import decimals_for, duration, error, size, unsigned_error
from ui.measure.wording import phase_while, remark_text, tag_of
from ui.names import card_name
from ui.numbers import DASH, percent, whole
from ui.trace.cards import CardRow
from ui.trace.result import Result
from ui.words import Safe, Words

PROGRESS: Final = frozenset({"building", "tracing", "extending", "writing"})


def part_name(name: str, words: Words) -> str:
    """A category of tensors; the allocator's and the libraries' own share have other names than in a plan."""
    own = f"trace.part.{name}"
    return words(own) if words.has(own) else words(f"category.{name}")


def tag(result: Result, words: Words) -> Safe:
    """How near the formulas are to the trace."""
    off = abs(result.allocated.error_frac or 0.0)
    for limit, tone, icon, name in ((GOOD_FRAC, "ok", "✓", "good"), (FAIR_FRAC, "tight", "!", "fair")):
        if off <= limit:
            return tag_of(tone, icon, words(f"trace.tag.{name}"))
    return tag_of("bad", "✕", words("trace.tag.poor"))


def summary(result: Result, words: Words) -> Safe:
    """Both peaks, what agrees, what does not: at most four sentences."""
    sentences = [_peaks(result, words)]
    if result.expected is not result.peak:
        came = phase_while(result.peak.value, words)
        expected = phase_while(result.expected.value, words)
        sentences.append(words.html("trace.say.other_phase", came=came, expected=expected))
    return words.sentences([*sentences, _agreement(result, words)])


def _peaks(result: Result, words: Words) -> Safe:
    pair = result.allocated
    decimals = decimals_for(pair.measured_bytes)
    facts = {
        "traced": size(pair.measured_bytes, decimals),
        "predicted": size(pair.predicted_bytes, decimals),
        "phase": phase_while(result.peak.value, words),
    }
    if pair.error_frac is None or result.is_equal(pair):
        return words.html("trace.say.equal_peak", **facts)
    side = words("measure.side.high" if pair.error_frac > 0 else "measure.side.low")
    return words.html("trace.say.peak", error=unsigned_error(pair.error_frac), side=side, **facts)


def _agreement(result: Result, words: Words) -> Safe:
    pairs = result.parts(result.peak)
    equal = [pair for pair in pairs if result.is_equal(pair)]
    if len(equal) == len(pairs):
        return words.html("trace.say.all_equal")
    worst = max(pairs, key=lambda pair: abs(pair.gap_bytes or 0))
    key = "trace.say.more" if (worst.gap_bytes or 0) > 0 else "trace.say.less"
    gap = size(abs(worst.gap_bytes or 0), decimals_for(result.allocated.measured_bytes))
    said = words.html(key, part=_in_sentence(worst.name, words), gib=gap)
    if not equal:
        return said
    names = [_in_sentence(pair.name, words) for pair in equal]
    listed = words.both(names)
    one = "trace.say.agree_one" if len(equal) == 1 else "trace.say.agree"
    return words.sentences([words.html(one, parts=words.opening(listed)), said])


def _in_sentence(name: str, words: Words) -> str:
    own = f"trace.part.{name}"
    text = words(own) if words.has(own) else words(f"part.{name}")
    return words.inside(text)


def strip(result: Result, words: Words) -> list[tuple[Safe, Safe, Safe]]:
    """Allocated, reserved, what lies between them, the question's card, the smallest card."""
    decimals = decimals_for(result.allocated.measured_bytes)
    unused = result.answer.peak_reserved_bytes - result.answer.peak_allocated_bytes
    share = percent(unused / max(result.answer.peak_reserved_bytes, 1))
    return [
        _pair_cell("allocated", result.allocated, decimals, words),
        _pair_cell("reserved", result.reserved, decimals, words),
        (
            words.html("trace.strip.between"),
            words.html("strip.gib", value=size(unused, decimals)),
            words.html("trace.strip.between_below", share=share),
        ),
        _own_cell(result, words),
        _smallest_cell(result.smallest, words),
    ]


def _pair_cell(name: str, pair: Pair, decimals: int, words: Words) -> tuple[Safe, Safe, Safe]:
    below = words.html(
        "measure.strip.beside", predicted=size(pair.predicted_bytes, decimals), error=error(pair.error_frac)
    )
    value = words.html("strip.gib", value=size(pair.measured_bytes, decimals))
    return words.html(f"trace.strip.{name}"), value, below


def _own_cell(result: Result, words: Words) -> tuple[Safe, Safe, Safe]:
    own = result.own
    if own is None:
        return words.html("trace.strip.card"), Safe(DASH), words.html("strip.no_capacity")
    label = words.html("trace.strip.on", card=own.card.name)
    if own.stop is not None:
        return (
            label,
            words.html("trace.strip.stops"),
            words.html(f"trace.strip.{own.cause}", phase=words(f"phase.{own.stop.phase}.name")),
        )
    below = (
        words.html("trace.strip.spare", gib=size(own.spare_bytes, 1))
        if own.spare_bytes is not None
        else words.html("trace.strip.squeezed")
    )
    return label, words.html("trace.strip.runs"), below


def _smallest_cell(row: CardRow | None, words: Words) -> tuple[Safe, Safe, Safe]:
    label = words.html("trace.strip.smallest")
    if row is None:
        return label, Safe(DASH), words.html("trace.strip.no_card")
    value = words.html("strip.gib", value=size(row.card.usable_bytes, 1))
    return label, value, words.html("trace.strip.such_as", card=card_name(row.card.name))


def card_outcome(row: CardRow, words: Words) -> Safe:
    """What becomes of the step on a card, in a table."""
    if row.stop is not None:
        return words.html(f"trace.cards.{row.cause}", phase=phase_while(row.stop.phase, words))
    if row.spare_bytes is None:
        return words.html("trace.cards.squeezed", times=words.count("trace.cards.times", row.retries))
    return words.html("trace.cards.runs", gib=size(row.spare_bytes, 1))


def stop_text(row: CardRow, result: Result, words: Words) -> Safe:
    """Where a card runs out: who asked for what, and whether demand or fragmentation did it."""
    stop = row.stop
    if stop is None:
        return Safe("")
    decimals = decimals_for(stop.at.reserved_bytes)
    asked = words.html(
        "trace.out.asked" if stop.op else "trace.out.loading",
        phase=phase_while(stop.phase, words),
        step=whole(stop.step),
        op=stop.op.removeprefix("aten::"),
        module=stop.module or words("trace.out.no_module"),
        requested=size(stop.at.requested_bytes, decimals_for(stop.at.requested_bytes)),
        allocated=size(stop.at.allocated_bytes, decimals),
        reserved=size(stop.at.reserved_bytes, decimals),
    )
    cause = words.html(
        f"trace.out.{row.cause}",
        peak=size(result.answer.peak_tensor_bytes, decimals),
        capacity=size(row.card.capacity_bytes, decimals),
    )
    return words.sentences([asked, cause])


def refusal(remark: Remark, words: Words) -> Safe:
    """Why a field cannot be traced."""
    given = remark.params.get("given")
    named = field_name(remark.field, words) if remark.field else words("trace.refused.question")
    if given is None or isinstance(given, bool):
        return words.html("trace.refused.field", field=named, why=remark_text(remark, words))
    shown = written_text(remark.field, str(given), words) if isinstance(given, str) else given
    return words.html("trace.refused.value", field=named, given=shown, why=remark_text(remark, words))


def progress(seen: Snapshot, words: Words) -> str:
    """What is going on."""
    at = seen.progress
    if seen.state == "stopping":
        return words("measure.progress.stopping")
    if at is None:
        return words("trace.progress.starting")
    code = at.code if at.code in PROGRESS else "other"
    phase = words(f"phase.{at.phase}.name").lower() if at.phase else DASH
    return words(f"trace.progress.{code}", step=whole(at.step), steps=whole(at.steps), phase=phase)


def is_extended(result: Result) -> bool:
    """Whether short models were run in place of the whole one."""
    return result.trace.instant is not None and bool(result.trace.instant.layers)


def foot(result: Result, words: Words, *, same: bool | None = None) -> Safe:
    """What ran, how long, for which kernels, on which rank.

    Args:
        result: What is shown.
        words: For the sentences.
        same: Whether every layer came to what was extended from short models; None if that was not tried.
    """
    trace = result.trace
    major, minor = trace.target.compute_capability
    said = words.html(
        "trace.foot",
        torch=trace.versions.torch,
        transformers=trace.versions.transformers,
        events=whole(len(trace.events)),
        seconds=f"{trace.build_s + trace.trace_s:.1f}",
        capability=f"{major}.{minor}",
        attention=words(f"trace.attention.{trace.target.attention}"),
    )
    parts = [said, _layers_run(result, words, same=same)]
    if trace.target.part.ranks > 1:
        parts.append(
            words.html("trace.rank", rank=whole(trace.target.part.rank), ranks=whole(trace.target.part.ranks))
        )
    return words.sentences(filter(None, parts))


def _layers_run(result: Result, words: Words, *, same: bool | None) -> Safe:
    instant = result.trace.instant
    if instant is not None and instant.layers:
        run = words("join.last").join(map(whole, instant.layers))
        return words.html("trace.instant.extended", run=run, layers=whole(result.plan.model.num_layers))
    if same is not None:
        return words.html("trace.instant.same" if same else "trace.instant.differs")
    if instant is not None and instant.code:
        key = f"trace.instant.why.{instant.code}"
        why = words(key) if words.has(key) else instant.code
        return words.html("trace.instant.whole", why=why)
    return Safe("")


def phase_rows(result: Result, words: Words) -> list[list[str]]:
    """Every phase: predicted, traced, difference, error, reserved, what differs most."""
    decimals = decimals_for(result.allocated.measured_bytes)
    rows = []
    for compared in result.phases:
        pair = result.phase_pair(compared.phase)
        figures = result.answer.figures(compared.phase.value)
        reserved = None if figures is None else figures.peak_reserved_bytes
        rows.append(
            [
                words(f"phase.{compared.phase.value}.name"),
                size(pair.predicted_bytes, decimals),
                size(pair.measured_bytes, decimals),
                error(pair.error_frac),
                size(reserved, decimals),
                _largest(result, compared.phase, words),
            ]
        )
    return rows


def _largest(result: Result, phase: Phase, words: Words) -> str:
    pairs = result.parts(phase)
    worst = max(pairs, key=lambda pair: abs(pair.gap_bytes or 0), default=None)
    if worst is None or result.is_equal(worst):
        return words("trace.phases.none")
    return part_name(worst.name, words)


def predicted_reserved(result: Result, phase: Phase) -> int:
    """What the formulas let the allocator hold in a phase."""
    return result.plan.worst.ledger.phase_bytes(phase, Layer.RESERVED)


def ended(state: str, seen: Snapshot, words: Words) -> Safe:
    """Why there is no trace."""
    return words.html(
        f"trace.ended.{state}",
        detail=seen.detail[:300],
        code=seen.signal or seen.exit_code,
        limit=duration(seen.elapsed_s, words),
    )
