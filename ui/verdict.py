"""The answer in sentences: what was asked, whether it fits, why, and what holds the number up."""

from typing import Final

from planner.issues import Issue
from planner.ledger import Category, Phase
from planner.plan_types import DevicePlan, Plan, Verdict
from ui import clips
from ui.changes import Outcome, what
from ui.counts import short_count
from ui.names import card_name, short_model_name
from ui.numbers import DASH, TIMES, gib1, percent, ranges, signed_gib, small_percent, whole
from ui.phase_names import phase_name
from ui.words import Safe, Words, escaped

TAG: Final = {
    Verdict.FITS: ("ok", "✓"),
    Verdict.TIGHT: ("tight", "!"),
    Verdict.DOES_NOT_FIT: ("bad", "✕"),
    Verdict.UNKNOWN: ("unknown", "?"),
}

COUNTS_FIRST: Final = frozenset({"vllm"})
"""Engines that end at start-up where the cache has no room for one sequence of the whole context."""


def scenario_sentence(plan: Plan, words: Words) -> Safe:
    """What was asked, in one line."""
    asked = plan.resolved
    name = (
        short_model_name(asked.model.id)
        if asked.model.id
        else words("model.own_name", type=plan.model.model_type)
    )
    parts: list[str] = [
        words.html("scenario.start", task=words(f"task.{asked.task}.name"), model=name, cards=_cards(plan)),
        *_division(plan, words),
        *_size(plan, words),
        words.html("scenario.runtime", runtime=words(f"runtime.{asked.runtime.name}")),
    ]
    return Safe(words("scenario.between").join(parts))


def headline(plan: Plan, words: Words) -> Safe:
    """The verdict with its number."""
    worst = plan.worst
    gpu = gpu_name(worst, words)
    if worst.headroom_bytes is None or worst.usable_bytes is None:
        return words.html("verdict.unknown.card", gpu=gpu, needs=gib1(worst.peak_bytes))
    unsupported = _unsupported(plan)
    if plan.verdict is Verdict.UNKNOWN and unsupported is not None:
        needs, usable = gib1(worst.peak_bytes), gib1(worst.usable_bytes)
        return words.html(
            "verdict.unknown.runtime", gpu=gpu, needs=needs, usable=usable, **_ports(unsupported, words)
        )
    if (part := clips.undescribed(plan)) is not None:
        return clips.headline(plan, part, gpu, words)
    if plan.verdict is Verdict.UNKNOWN:
        usable = gib1(worst.usable_bytes)
        return words.html("verdict.unknown.band", gpu=gpu, needs=gib1(worst.peak_bytes), usable=usable)
    if plan.verdict is Verdict.FITS and plan.serving is not None and plan.model.latents is not None:
        pictures = _ratio(plan.serving.concurrency)
        key = f"verdict.fits.{clips.sort_of(plan.model.latents)}"
        return words.html(key, pictures=pictures, gib=gib1(worst.headroom_bytes))
    if plan.verdict is Verdict.FITS and plan.serving is not None:
        served = plan.serving
        return words.html(
            "verdict.fits.serving",
            sequences=_ratio(served.concurrency),
            context=whole(served.context_tokens),
            gib=gib1(worst.headroom_bytes),
        )
    form = "many" if len(worst.indices) > 1 else "one"
    return words.html(f"verdict.{_case(worst)}.{form}", gpu=gpu, gib=gib1(abs(worst.headroom_bytes)))


def _unsupported(plan: Plan) -> Issue | None:
    """That the runtime has no release for a card of the job."""
    return next((issue for issue in plan.issues if issue.code == "runtime_not_on_this_card"), None)


def _ports(issue: Issue, words: Words) -> dict[str, str]:
    params = dict(issue.params)
    return {"runtime": words(f"runtime.{params['given']}"), "vendor": str(params["vendor"])}


WITHOUT_PICTURES: Final = frozenset({"block_activations_ignored", "pictures_not_counted"})
"""Reasons for which a model's figures are for text alone."""


def _left_out(plan: Plan, words: Words) -> list[Safe]:
    """What the figures lack of a model that sees pictures."""
    reasons = {dict(issue.params).get("reason") for issue in plan.issues if issue.code == "not_modelled"}
    return [words.html("why.towers")] if reasons & WITHOUT_PICTURES else []


def _pictures(plan: Plan, words: Words) -> list[Safe]:
    """How many tokens of a sequence are pictures'."""
    training, tower = plan.resolved.training, plan.model.tower
    if not plan.resolved.is_training or tower is None or not training.images:
        return []
    tokens = training.images * tower.tokens(training.image_pixels)
    return [words.html("why.pictures", tokens=whole(tokens), sequence=whole(training.sequence_length))]


def _refusal(plan: Plan, words: Words) -> list[Safe]:
    """That a server counts its cache before it starts, and does not start without room for the context."""
    served, runtime = plan.serving, plan.resolved.runtime.name
    if served is None or served.budget_bytes is None or runtime not in COUNTS_FIRST:
        return []
    name, longest = words(f"runtime.{runtime}"), served.longest_context_tokens
    if longest >= served.context_tokens:
        return []
    if longest <= 0:
        return [words.html("why.refuses_all", runtime=name)]
    return [
        words.html("why.refuses", runtime=name, context=whole(served.context_tokens), longest=whole(longest))
    ]


def _case(worst: DevicePlan) -> str:
    """Which sentence tells the verdict of a card whose capacity and band are known."""
    spare = (worst.headroom_bytes or 0) >= 0
    if worst.verdict is Verdict.DOES_NOT_FIT:
        return "refused" if spare else "short"
    if worst.verdict is Verdict.FITS:
        return "fits"
    if (
        worst.band is not None
        and worst.usable_bytes is not None
        and worst.band.high_bytes <= worst.usable_bytes
    ):
        return "margin"
    return "within_band" if spare else "over_within_band"


def tag(verdict: Verdict, words: Words) -> Safe:
    """Icon, word and tint."""
    kind, icon = TAG[verdict]
    return Safe(f'<span class="tag {kind}">{icon}&ensp;{words.html(f"verdict.word.{verdict.value}")}</span>')


def why(plan: Plan, found: tuple[Outcome, ...], best: Outcome | None, words: Words) -> Safe:
    """Two sentences: the phase and the parts that make the peak, and the next move; between them what is left out."""
    worst = plan.worst
    at_peak = worst.ledger.by_category(worst.peak_phase)
    largest = sorted(at_peak.items(), key=lambda item: -item[1])[:2]
    own = peak_part(worst)
    if own is not None and own not in dict(largest):
        largest.append((own, at_peak[own]))
    parts = words("why.and").join(
        words("why.part", part=words(f"part.{category.value}"), gib=gib1(size)) for category, size in largest
    )
    facts = {
        "phase": phase_name(worst.ledger.phases, worst.peak_phase, "while", words),
        "gpu": gpu_name(worst, words),
        "verb": words("why.needs.one" if len(worst.indices) == 1 else "why.needs.other"),
        "needs": gib1(worst.peak_bytes),
        "card": card_name(worst.gpu_name),
        "parts": parts,
    }
    if worst.usable_bytes is None:
        first = words.html("why.unknown_card", **facts)
    else:
        first = words.html("why.known_card", usable=gib1(worst.usable_bytes), **facts)
    return words.sentences(
        [
            first,
            *_pictures(plan, words),
            *_refusal(plan, words),
            *_left_out(plan, words),
            _next_move(plan, found, best, words),
        ]
    )


def gpu_name(device: DevicePlan, words: Words) -> str:
    """`GPU 5` or `GPUs 0-3`."""
    key = "chart.gpu" if len(device.indices) == 1 else "chart.gpus"
    return words(key, index=ranges(device.indices))


def next_tightest(plan: Plan) -> DevicePlan | None:
    """The group with the least headroom after the one that limits; None where there is no other."""
    others = [d for i, d in enumerate(plan.devices) if i != plan.fullest and d.headroom_bytes is not None]
    return min(others, key=lambda device: device.headroom_bytes or 0, default=None)


def strip(plan: Plan, words: Words) -> list[tuple[Safe, Safe, Safe]]:
    """The five figures: label, value, and what stands below."""
    worst = plan.worst
    fullest = (
        words.html("strip.of", needs=gib1(worst.peak_bytes), usable=gib1(worst.usable_bytes))
        if worst.usable_bytes is not None
        else words.html("strip.gib", value=gib1(worst.peak_bytes))
    )
    card = words.html("strip.card", gpu=gpu_name(worst, words), card=card_name(worst.gpu_name))
    return [
        (words.html("strip.fullest"), fullest, card),
        _headroom_cell(plan, words),
        _phase_cell(worst, words),
        _band_cell(plan, words),
        _last_cell(plan, words),
    ]  # fmt: skip


def known_line(plan: Plan, words: Words) -> Safe:
    """How the answer is known."""
    band = plan.worst.band
    rows = band.num_rows if band is not None else 0
    basis = words(f"known.basis.{band.basis}") if band is not None else ""
    text = words.html(
        f"known.{plan.known.value}",
        n=whole(rows),
        basis=basis,
        runtime=words(f"runtime.{plan.resolved.runtime.name}"),
    )
    notes = [words.html("known.usable", source=words(f"known.usable_source.{plan.worst.usable_source}"))]
    if plan.model.approximate:
        notes.append(words.html("known.approximate"))
    return words.sentences([text, *notes])


def _cards(plan: Plan) -> str:
    names: dict[str, int] = {}
    for device in plan.devices:
        name = card_name(device.gpu_name)
        names[name] = names.get(name, 0) + len(device.indices)
    return " + ".join(
        f"{whole(count)} {TIMES} {name}" if count > 1 else name for name, count in names.items()
    )


def _division(plan: Plan, words: Words) -> list[str]:
    parallel = plan.resolved.parallel
    parts: list[str] = []
    for name in ("pipeline", "tensor", "context", "expert"):
        degree = getattr(parallel, name)
        if degree > 1:
            parts.append(words.html(f"scenario.{name}", n=whole(degree)))
    if parallel.sharding != "none":
        parts.append(words.html("scenario.sharding", name=words(f"sharding.{parallel.sharding}")))
    return parts


def _size(plan: Plan, words: Words) -> list[str]:
    asked = plan.resolved
    if asked.is_training:
        parts: list[str] = [words.html("scenario.sequence", n=whole(asked.training.sequence_length))]
        if asked.training.micro_batch > 1:
            parts.append(words.html("scenario.micro_batch", n=whole(asked.training.micro_batch)))
        optimizer = words(f"optimizer.{asked.training.optimizer.name}")
        parts.append(words.html("scenario.precision", precision=_precision(plan, words), optimizer=optimizer))
        return parts
    parts = []
    if asked.serving.max_model_len is not None:
        parts.append(words.html("scenario.context_tokens", n=whole(asked.serving.max_model_len)))
    if asked.workload is not None and asked.workload.concurrency is not None:
        latents = plan.model.latents
        key = "scenario.concurrency" if latents is None else f"scenario.{clips.sort_of(latents)}"
        parts.append(words.html(key, n=whole(asked.workload.concurrency)))
    if asked.serving.weights is not None:
        parts.append(words.html("scenario.weights", name=_format(asked.serving.weights, words)))
    return parts


def _precision(plan: Plan, words: Words) -> str:
    precision = plan.resolved.training.precision
    stored = _format(precision.parameters or precision.compute or "", words)
    if precision.autocast and precision.compute and precision.compute != precision.parameters:
        return words("scenario.autocast", compute=_format(precision.compute, words), parameters=stored)
    return stored


def _format(name: str, words: Words) -> str:
    key = f"format.{name}"
    return words(key) if words.has(key) else name


def _next_move(plan: Plan, found: tuple[Outcome, ...], best: Outcome | None, words: Words) -> Safe:
    if plan.verdict is Verdict.FITS:
        return words.html("why.growth") if any(o.change.grows for o in found) else Safe("")
    if plan.verdict is Verdict.UNKNOWN and _unsupported(plan) is not None:
        return words.html("why.another_runtime")
    if (part := clips.undescribed(plan)) is not None:
        return words.html(f"why.clip_{part}")
    if best is None:
        return Safe("") if plan.verdict is Verdict.UNKNOWN else words.html("why.no_single_change")
    same_job = [o for o in found if not o.change.other_job and o.plan.verdict is Verdict.TIGHT]
    if best.plan.verdict is Verdict.FITS and best.change.other_job and same_job:
        return words.html(
            "why.tight_or_fit",
            first=_what(same_job[0], words),
            second=_what(best, words),
            less=_less(same_job[0], words),
        )
    key = "why.makes_fit" if best.plan.verdict is Verdict.FITS else "why.makes_tight"
    return words.html(key, what=_what(best, words), less=_less(best, words))


def _what(outcome: Outcome, words: Words) -> str:
    return what(outcome.change, words)


def _less(outcome: Outcome, words: Words) -> str:
    """What a change saves, or what the engine may take more with it."""
    key = "why.more_room" if outcome.change.budget else "why.less"
    return words(key, gib=gib1(outcome.gained_bytes))


def _headroom_cell(plan: Plan, words: Words) -> tuple[Safe, Safe, Safe]:
    worst = plan.worst
    label = words.html("strip.headroom")
    if worst.headroom_bytes is None:
        return label, Safe(DASH), words.html("strip.no_capacity")
    kind = TAG[worst.verdict][0]
    value = words.html(
        "strip.signed", kind=kind if kind != "ok" else "", value=signed_gib(worst.headroom_bytes)
    )
    following = next_tightest(plan)
    if following is not None and following.headroom_bytes is not None:
        gib = signed_gib(following.headroom_bytes)
        return label, value, words.html("strip.next", gpu=gpu_name(following, words), gib=gib)
    if worst.usable_bytes:
        return label, value, words.html("strip.share", share=percent(worst.peak_bytes / worst.usable_bytes))
    return label, value, Safe("")


def _phase_cell(worst: DevicePlan, words: Words) -> tuple[Safe, Safe, Safe]:
    """The fullest phase, and the part that belongs to it more than to any other phase."""
    category = peak_part(worst)
    below = Safe("")
    if category is not None:
        size = worst.ledger.by_category(worst.peak_phase)[category]
        below = words.html("strip.largest", part=words(f"part.{category.value}"), gib=gib1(size))
    name = Safe(escaped(phase_name(worst.ledger.phases, worst.peak_phase, "name", words)))
    return words.html("strip.phase"), name, below


def peak_part(device: DevicePlan) -> Category | None:
    """The category that the fullest phase adds most of, compared with the other working phases.

    The largest one where nothing is added; None where nothing is held.
    """
    ledger = device.ledger
    at_peak = ledger.by_category(device.peak_phase)
    others = [p for p in ledger.phases if p not in {device.peak_phase, Phase.REST, Phase.LOAD}]
    least = {c: min((ledger.by_category(p).get(c, 0) for p in others), default=0) for c in at_peak}
    return max(at_peak, key=lambda c: (at_peak[c] - least[c], at_peak[c]), default=None)


def _band_cell(plan: Plan, words: Words) -> tuple[Safe, Safe, Safe]:
    band = plan.worst.band
    if band is None:
        why_none = "strip.no_band_clip" if clips.undescribed(plan) else "strip.no_band"
        return words.html("strip.band", coverage=DASH), Safe(DASH), words.html(why_none)
    label = words.html("strip.band", coverage=percent(band.coverage_frac))
    value = words.html("strip.range", low=gib1(band.low_bytes), high=gib1(band.high_bytes))
    return label, value, words.html(f"strip.rows.{band.basis}", n=whole(band.num_rows))


def _last_cell(plan: Plan, words: Words) -> tuple[Safe, Safe, Safe]:
    served = plan.serving
    if served is not None and plan.model.latents is not None:
        value = words.html("strip.tokens", value=_ratio(served.concurrency))
        return words.html(f"strip.{clips.sort_of(plan.model.latents)}"), value, Safe("")
    if served is not None:
        value = words.html("strip.tokens", value=whole(served.kv_tokens))
        below = words.html("strip.longest", n=whole(served.longest_context_tokens))
        return words.html("strip.kv_tokens"), value, below
    total = plan.model.params_total
    share = small_percent(plan.trainable_params / total) if total else DASH
    value = words.html("strip.count", value=short_count(plan.trainable_params, words))
    return (
        words.html("strip.trainable"),
        value,
        words.html("strip.of_params", share=share, total=short_count(total, words)),
    )


def _ratio(value: float) -> str:
    return whole(int(value)) if value >= 10 else f"{value:.1f}"
