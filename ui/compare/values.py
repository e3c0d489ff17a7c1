"""Fields that differ, in words: `Micro-batch 1 -> 2`."""

from typing import Any, Final

from planner.plan_types import Plan
from ui.compare.fields import FieldChange
from ui.issue_words import field_name
from ui.names import card_name, short_model_name
from ui.numbers import DASH, TIMES, whole
from ui.words import Words

GROUPS: Final[dict[str, str]] = {
    "training.checkpointing": "checkpointing",
    "training.attention": "attention",
    "training.loss": "loss",
    "training.optimizer.name": "optimizer",
    "training.optimizer.implementation": "implementation",
    "adapter.method": "adapter",
    "adapter.targets": "targets",
    "parallel.sharding": "sharding",
    "parallel.offload.parameters": "offload",
    "parallel.offload.optimizer": "offload",
    "parallel.offload.gradients": "offload",
    "parallel.pipeline_schedule": "schedule",
    "runtime.name": "runtime",
    "runtime.allocator": "allocator",
}
"""Words of a field's values; all others are looked up as formats."""

_WRITTEN: Final[dict[str, bool | None]] = {
    "True": True,
    "true": True,
    "False": False,
    "false": False,
    "()": None,
    "None": None,
}


def change_text(change: FieldChange, first: Plan, second: Plan, words: Words) -> str:
    """The field with its value before and after."""
    before, after = (
        value_text(change.path, value, plan, words) if value is not None else words("compare.not_set")
        for value, plan in ((change.before, first), (change.after, second))
    )
    return words("compare.change", field=field_name(change.path, words), before=before, after=after)


def value_text(path: str, value: Any, plan: Plan, words: Words) -> str:
    """A value of the schema in words; an en dash where there is none."""
    if path == "model":
        return model_name(plan, words)
    if path == "hardware.devices":
        return cards(plan)
    if path == "task":
        return words(f"task.{value}.short")
    if value is None or value == []:
        return DASH
    items = value if isinstance(value, list) else [value]
    return "\u00b7".join(option_text(path, item, words) for item in items)


def model_name(plan: Plan, words: Words) -> str:
    """The model's name, or what type it is of."""
    asked = plan.resolved.model
    return short_model_name(asked.id) if asked.id else words("model.own_name", type=plan.model.model_type)


def cards(plan: Plan) -> str:
    """All cards of the job: `2 x A100 40 GB PCIe + 4 x RTX 4090`."""
    counts: dict[str, int] = {}
    for device in plan.devices:
        name = card_name(device.gpu_name)
        counts[name] = counts.get(name, 0) + len(device.indices)
    return " + ".join(f"{whole(n)} {TIMES} {name}" if n > 1 else name for name, n in counts.items())


def written_text(path: str, value: str, words: Words) -> str:
    """A value that a document wrote as text: options and yes or no by name, lists part by part."""
    if value in _WRITTEN:
        known = _WRITTEN[value]
        return DASH if known is None else option_text(path, known, words)
    return words.listed(option_text(path, item, words) for item in value.split(", "))


def option_text(path: str, value: Any, words: Words) -> str:
    """One value of a field by its name in the form, as it is where it has none."""
    if isinstance(value, bool):
        return words("compare.yes" if value else "compare.no")
    if isinstance(value, int):
        return whole(value)
    if isinstance(value, float):
        return f"{value:g}"
    key = f"{GROUPS.get(path, 'format')}.{value}"
    return words(key) if words.has(key) else str(value)
