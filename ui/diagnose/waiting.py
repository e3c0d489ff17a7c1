"""Signs that cards wait for each other, and the checklist: from the plan, from NCCL's lines, from an opened report."""

from typing import Final

from planner.diagnose import Diagnosis
from planner.diagnose.checklist import Item, checklist
from planner.diagnose.communication import Measured, Sign, signs
from planner.diagnose.links import State
from planner.issues import Param
from planner.plan_types import Plan
from planner.units import gb
from profiler.findings import findings
from profiler.report import Report
from ui import parts
from ui.answers import tables
from ui.measure import actions
from ui.numbers import DASH, gib1, percent, whole
from ui.words import Safe, Words

TONES: Final[dict[State, tuple[str, str]]] = {
    "good": ("ok", "✓"),
    "attention": ("tight", "!"),
    "unknown": ("unknown", "?"),
}


def signs_html(found: Diagnosis, plan: Plan, words: Words) -> Safe | None:
    """Every sign as a row; None for one card without NCCL's lines."""
    report = actions.opened()
    told = signs(plan, tables(), found.links, None if report is None else _measured(report))
    if not told:
        return None
    head = [words(f"diagnose.signs_head.{name}") for name in ("state", "sign")]
    rows = [[_tag(sign.state, words), _sentence(sign, words)] for sign in told]
    return parts.table(head, rows, name=words("diagnose.signs_title"), wide=(1,))


def checklist_html(plan: Plan, words: Words) -> Safe:
    """The checklist: what it asks, what the plan says, and what the opened report says where one is open."""
    report = actions.opened()
    items = checklist(plan, tables(), None if report is None else _ticks(report))
    shown = ("item", "plan", "here") if report is None else ("item", "plan", "here", "measured")
    head = [words(f"diagnose.check_head.{name}") for name in shown]
    rows = [
        [
            words(f"diagnose.check.{item.code}.item"),
            _tag(item.planned, words),
            _here(item, words),
            _tag(item.measured, words),
        ][: len(shown)]
        for item in items
    ]
    return parts.table(head, rows, name=words("diagnose.check_title"), left=(1, 3), wide=(0, 2), stacked=True)


def _measured(report: Report) -> Measured:
    told = {finding.code: finding.params for finding in findings(report)}
    talk = told.get("talks_much") or told.get("talks_little") or {}
    spread = told.get("times_differ") or told.get("times_differ_little") or {}
    return Measured(communication_frac=_share(talk, "frac"), spread_frac=_share(spread, "spread_frac"))


def _share(params: dict[str, Param], name: str) -> float | None:
    value = params.get(name)
    return value if isinstance(value, float) else None


def _ticks(report: Report) -> dict[str, bool | None]:
    states: dict[str, bool | None] = {"good": True, "attention": False}
    return {
        finding.code: states.get(finding.state)
        for finding in findings(report)
        if finding.topic == "checklist"
    }


def _tag(state: State, words: Words) -> Safe:
    kind, icon = TONES[state]
    return Safe(f'<span class="tag {kind}">{icon}&ensp;{words.html(f"diagnose.state.{state}")}</span>')


def _sentence(sign: Sign, words: Words) -> Safe:
    key = f"diagnose.sign.{sign.code}"
    own = f"{key}_{sign.state}"
    return words.html(own if words.has(own) else key, **_values(sign.params, words))


def _here(item: Item, words: Words) -> Safe:
    key = f"diagnose.check.{item.code}.{item.planned}"
    return words.html(key, **_values(item.params, words)) if words.has(key) else Safe(DASH)


def _values(params: tuple[tuple[str, Param], ...], words: Words) -> dict[str, str]:
    """Parameters as text: shares, rates in Gbit/s, sizes, parts of a step by their names."""
    said = {}
    for name, value in params:
        if value is None:
            said[name] = DASH
        elif name.endswith("frac"):
            said[name] = percent(float(value))
        elif name.endswith("bytes_per_s"):
            said[name] = whole(gb(float(value)) * 8)
        elif name.endswith("_bytes"):
            said[name] = gib1(float(value))
        elif name in {"part", "bound"}:
            said[name] = words(f"speed.part.{value}")
        else:
            said[name] = whole(value) if isinstance(value, int) else str(value)
    return said
