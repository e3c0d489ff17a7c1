"""Parts of a diagnosis in English: the sentences of `diagnose_sentences` with their values."""

from collections.abc import Iterable

from planner.cli.diagnose_sentences import (
    CHECKS,
    FIXES,
    PLANNED,
    REMARKS,
    SIGNS,
    TENSORS,
    VAIN,
    VAIN_REASONS,
    WORKED_OUT,
)
from planner.cli.report import gib_text
from planner.cli.speed import NAMES
from planner.diagnose.checklist import Item
from planner.diagnose.communication import Sign
from planner.diagnose.diagnosis import Diagnosis
from planner.diagnose.fixes import Fix
from planner.diagnose.tensors import Tensor
from planner.diagnose.vain import Vain
from planner.issues import Param
from planner.units import gb


def fix(found: Fix) -> str:
    """What to do."""
    return FIXES.get(found.code) or PLANNED[found.code]


def vain(found: Vain, of: Diagnosis) -> str:
    """What would not help, and why."""
    cached = of.layers.bytes("unallocated") if of.layers is not None else None
    facts = {"cached": gib_text(cached or 0, 2), "missing": gib_text(max(0, of.missing_bytes or 0), 2)}
    return f"{VAIN[found.code]} {VAIN_REASONS[found.reason].format(**facts)}"


def remark(code: str, params: Iterable[tuple[str, Param]]) -> str:
    """What else should be said."""
    return REMARKS[code].format(**values(params))


def sign(found: Sign) -> str:
    """One thing that was looked at between the cards."""
    template = SIGNS.get(f"{found.code}_{found.state}") or SIGNS[found.code]
    return template.format(**values(found.params))


def check(item: Item) -> str:
    """What an item of the checklist asks, and what the plan says of it."""
    here = CHECKS.get(f"{item.code}.{item.planned}")
    said = CHECKS[f"{item.code}.item"]
    return said if here is None else f"{said}: {here.format(**values(item.params))}"


def tensor(found: Tensor) -> str:
    """What a tensor is called."""
    if found.name == "entry":
        return found.detail.replace("_", " ")
    return TENSORS[found.name].format(detail=found.detail)


def worked_out(name: str, value: Param) -> str:
    """A figure that follows from the text and the plan."""
    return f"{WORKED_OUT[name]}: {values([(name, value)])[name]}{' GiB' if name.endswith('_bytes') else ''}"


def values(params: Iterable[tuple[str, Param]]) -> dict[str, str]:
    """Parameters as text: sizes in GiB, shares in percent, rates in Gbit/s, parts of a step by their names."""
    return {name: _value(name, value) for name, value in params}


def _value(name: str, value: Param) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return NAMES.get(value, value) if name in {"part", "bound"} else value
    if name.endswith("frac"):
        return f"{value:.0%}"
    if name.endswith("_bytes_per_s"):
        return f"{8 * gb(float(value)):,.0f}"
    if name.endswith("_bytes"):
        return gib_text(round(value), 2)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
