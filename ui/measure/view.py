"""What the page knows in one run: the machine, the device chosen, the question made ready, the newest job."""

from dataclasses import dataclass

from planner.plan_types import Plan
from profiler.job_types import Snapshot
from profiler.plan_request import Prepared, prepare
from ui.document import Document
from ui.measure.jobs import Run
from ui.measure.machine import Here, Spot
from ui.measure.states import ENDED_WITHOUT_RESULT, State, before_start, of_job


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One look at everything.

    Attributes:
        here: The machine.
        spot: The device chosen.
        document: The question.
        plan: Its answer.
        prepared: The question made ready for the device.
        run: The newest run of the device that this page cares about, None for none.
        seen: That run's job.
        mine: Whether this page started it.
        state: What to show.
    """

    here: Here
    spot: Spot
    document: Document
    plan: Plan
    prepared: Prepared
    run: Run | None
    seen: Snapshot | None
    mine: bool
    state: State


def view_of(
    document: Document,
    plan: Plan,
    *,
    here: Here,
    spot: Spot,
    run: Run | None,
    session: str,
    hidden: str = "",
    shown: str = "",
) -> View:
    """Look once.

    Args:
        document: The question.
        plan: Its answer.
        here: The machine.
        spot: The device chosen.
        run: The newest run of that device.
        session: Who looks.
        hidden: Mark of an ended run that this page has put away.
        shown: Mark of somebody else's ended run that this page wants to see.
    """
    prepared = prepare(plan, spot.kind, spot.free_bytes)
    before = before_start(prepared, torch=here.torch)
    seen = run.job.snapshot() if run is not None else None
    mine = run is not None and run.session == session
    state = before
    if run is not None and seen is not None:
        wanted = mine or run.mark == shown
        if not seen.is_over or (wanted and run.mark != hidden):
            found = of_job(seen, mine=mine or seen.is_over)
            over_and_done_with = found in ENDED_WITHOUT_RESULT and not run.answers(document)
            state = before if over_and_done_with else found
    return View(
        here=here,
        spot=spot,
        document=document,
        plan=plan,
        prepared=prepared,
        run=run,
        seen=seen,
        mine=mine,
        state=state,
    )
