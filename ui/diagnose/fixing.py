"""Fixes on the open plan: each change planned again, what is done outside of it, what would not help."""

from typing import Final

import streamlit as st

from planner.diagnose import Diagnosis
from planner.diagnose.fixes import Effect, Fix, ranked
from planner.plan_types import Plan, Verdict
from ui import parts
from ui.changes import Outcome, outcomes
from ui.diagnose import wording
from ui.document import Document
from ui.fix_row import fix_row
from ui.words import Words

EVERY_CHANGE: Final = 40
MOST_SHOWN: Final = 6
GOOD: Final = (Verdict.FITS, Verdict.TIGHT)


def planned_effects(document: Document, plan: Plan) -> dict[str, Outcome]:
    """Every change that saves memory here, planned, by its name."""
    found = outcomes(document, plan, most=EVERY_CHANGE)
    return {outcome.change.name: outcome for outcome in found if not outcome.change.grows}


def ordered(found: Diagnosis, effects: dict[str, Outcome]) -> tuple[Fix, ...]:
    """The fixes that apply here, in order."""
    known = {
        name: Effect(
            verdict=outcome.plan.verdict,
            delta_bytes=outcome.delta_bytes,
            time_frac=outcome.time_frac,
            price_frac=outcome.price_frac_per_gib,
            other_job=outcome.change.other_job,
        )
        for name, outcome in effects.items()
    }
    return ranked(found.fixes, known)[:MOST_SHOWN]


def draw_fixes(found: Diagnosis, document: Document, plan: Plan, words: Words) -> None:
    """The fixes, one a row; a change of the plan has a button."""
    if not found.fixes:
        return
    effects = planned_effects(document, plan)
    fixes = ordered(found, effects)
    note = words("diagnose.fixes_note") if any(fix.change for fix in fixes) else ""
    st.html(parts.section(words("diagnose.fixes"), note))
    best = next((fix for fix in fixes if fix.change and effects[fix.change].plan.verdict in GOOD), None)
    several = _several(fixes, effects)
    if several is not None:
        fix_row(several, words, key="dx_several", primary=True)
    for number, fix in enumerate(fixes):
        if fix.change:
            fix_row(effects[fix.change], words, key=f"dx_{number}", primary=fix is best and several is None)
        else:
            st.html(_outside_row(fix, words))
    if not fixes:
        st.html(f'<div class="p m">{words.html("diagnose.no_fix")}</div>')


def _several(fixes: tuple[Fix, ...], effects: dict[str, Outcome]) -> Outcome | None:
    """Changes made together, where the plan has no room and none of the listed fixes is enough by itself."""
    if not any(fix.change for fix in fixes):
        return None
    if any(effects[fix.change].plan.verdict is Verdict.FITS for fix in fixes if fix.change):
        return None
    return next((outcome for outcome in effects.values() if outcome.change.parts), None)


def _outside_row(fix: Fix, words: Words) -> str:
    return (
        f'<div class="fixout"><b>{words.html(f"diagnose.fix.{fix.code}.what")}</b>'
        f'<span class="m">{words.html(f"diagnose.fix.{fix.code}.note")}</span></div>'
    )


def draw_vain(found: Diagnosis, words: Words) -> None:
    """What would not help."""
    lines = wording.vain_lines(found, words)
    if lines:
        st.html(parts.section(words("diagnose.vain_title")))
        st.html(f'<div class="p">{"<br>".join(lines)}</div>')
