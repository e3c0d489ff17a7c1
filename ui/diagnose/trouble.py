"""The troubleshooting table: symptom, likely cause, what to look at, and what the open plan says about it."""

from collections.abc import Callable
from typing import Final

from planner.ledger import Category, Layer
from planner.plan_types import Plan
from planner.units import MIB
from ui import parts
from ui.answers import answer
from ui.document import Document, put
from ui.numbers import DASH, gib1, percent, signed_gib, whole
from ui.words import Safe, Words

Check = Callable[[Document, Plan, Words], str]


def table(document: Document, plan: Plan, words: Words) -> Safe:
    """Every symptom that concerns the open question, its last column worked out from the plan."""
    rows = [
        [
            Safe(f"<b>{words.html(f'diagnose.trouble.{name}.symptom')}</b>"),
            words.html(f"diagnose.trouble.{name}.cause"),
            words.html(f"diagnose.trouble.{name}.check"),
            check(document, plan, words),
        ]
        for name, (check, training_only) in CHECKS.items()
        if plan.resolved.is_training or not training_only
    ]
    head = [words(f"diagnose.trouble_head.{name}") for name in ("symptom", "cause", "check", "here")]
    return parts.table(head, rows, name=words("diagnose.trouble_title"), wide=(0, 1, 2, 3))


def _first_step(_: Document, plan: Plan, words: Words) -> str:
    worst = plan.worst
    left = DASH if worst.headroom_bytes is None else signed_gib(worst.headroom_bytes)
    return words.html(
        "diagnose.trouble.first_step.here",
        phase=words(f"phase.{worst.peak_phase.value}.name"),
        needs=gib1(worst.peak_bytes),
        left=left,
    )


def _later(document: Document, plan: Plan, words: Words) -> str:
    longer = plan.resolved.training.sequence_length * 2
    changed = answer(put(document, "training.sequence_length", longer)).plan
    if changed is None:
        return words.html("diagnose.trouble.later.unknown")
    more = changed.worst.peak_bytes - plan.worst.peak_bytes
    return words.html("diagnose.trouble.later.here", tokens=whole(longer), more=signed_gib(more))


def _saving(_: Document, plan: Plan, words: Words) -> str:
    whole_bytes = 4 * plan.model.params_total
    return words.html("diagnose.trouble.saving.here", gib=gib1(whole_bytes))


def _speed(_: Document, plan: Plan, words: Words) -> str:
    worst = plan.worst
    if worst.usable_bytes is None or worst.headroom_bytes is None:
        return words.html("diagnose.trouble.speed.unknown")
    if worst.headroom_bytes < 0:
        return words.html("diagnose.trouble.speed.full")
    offload = plan.resolved.parallel.offload
    spills = plan.resolved.hardware.driver_spill or "cpu" in {offload.parameters, offload.optimizer}
    key = "spills" if spills else "here"
    return words.html(
        f"diagnose.trouble.speed.{key}", share=percent(worst.headroom_bytes / worst.usable_bytes)
    )


def _leak(_: Document, plan: Plan, words: Words) -> str:
    worst = plan.worst
    kept = worst.ledger.category_bytes(worst.peak_phase, Category.ACTIVATIONS)
    return words.html("diagnose.trouble.leak.here", gib=gib1(kept))


def _quantized(_: Document, plan: Plan, words: Words) -> str:
    asked = plan.resolved
    formats = [asked.adapter.base if asked.adapter is not None else None, asked.serving.weights]
    formats.append(asked.serving.kv_cache)
    named = sorted({name for name in formats if name and name not in {"bf16", "fp16", "fp32"}})
    key = "here" if named else "none"
    return words.html(f"diagnose.trouble.quantized.{key}", formats=words.listed(named))


def _outside(_: Document, plan: Plan, words: Words) -> str:
    worst = plan.worst
    live = worst.ledger.phase_bytes(worst.peak_phase, Layer.ALLOCATED)
    return words.html(
        "diagnose.trouble.outside.here",
        live=gib1(live),
        context=gib1(worst.peak_bytes - live - _cache(plan)),
        cache=gib1(_cache(plan)),
    )


def _inactive(_: Document, plan: Plan, words: Words) -> str:
    return words.html("diagnose.trouble.inactive.here", cache=gib1(_cache(plan)))


def _benchmark(_: Document, plan: Plan, words: Words) -> str:
    spaces = plan.worst.ledger.total("cublas_workspaces")
    return words.html("diagnose.trouble.benchmark.here", gib=whole(spaces / MIB))


def _cache(plan: Plan) -> int:
    worst = plan.worst
    return worst.ledger.by_category(worst.peak_phase).get(Category.ALLOCATOR, 0)


CHECKS: Final[dict[str, tuple[Check, bool]]] = {
    "first_step": (_first_step, False),
    "later": (_later, True),
    "saving": (_saving, True),
    "speed": (_speed, False),
    "leak": (_leak, True),
    "quantized": (_quantized, False),
    "outside": (_outside, False),
    "inactive": (_inactive, False),
    "benchmark": (_benchmark, False),
}
"""By symptom: what the plan says, and whether it concerns training alone."""
