"""`search` on the command line: options that do not go with a task, and what no plan keeps to."""

import argparse
from typing import Final

from planner.search.types import Fails, SearchResult

TRAINING_ONLY: Final = ("deadline_days", "budget_usd", "tokens", "sequences", "allow")
SERVING_ONLY: Final = ("weights",)
DAY_MINUTES: Final = 24 * 60
MOST_MINUTES: Final = 120


def refuse_strangers(options: argparse.Namespace, task: str, *, trains: bool) -> None:
    """Refuses options of the other kind of task, which would say nothing.

    Raises:
        ValueError: One was given; the message names it, the task and where it is allowed.
    """
    names, allowed = (SERVING_ONLY, "a task that serves") if trains else (TRAINING_ONLY, "a task that trains")
    for name in names:
        if getattr(options, name) is not None:
            option = "--" + name.replace("_", "-")
            raise ValueError(f"{option}: not for the task {task}; allowed: with {allowed}")


def time_text(days: float, low: float | None = None, high: float | None = None) -> str:
    """Days and their ends; minutes below two hours, which days would round away."""
    short = days * DAY_MINUTES < MOST_MINUTES
    times, digits, unit = (DAY_MINUTES, 1, "minutes") if short else (1, 2, "days")
    band = (
        "" if low is None or high is None else f" ({low * times:,.{digits}f} to {high * times:,.{digits}f})"
    )
    return f"{days * times:,.{digits}f} {unit}{band}"


def no_plan_text(result: SearchResult) -> str:
    """Why there is no plan of known time: the limit that none keeps to, and what comes nearest."""
    over, limits = result.over, result.limits
    if over is None or over.value is None:
        return "No plan within the limits whose speed is known."
    on = f"on {over.devices} x {over.machine.provider} {over.machine.gpu.id}".replace("  ", " ")
    if over.reason is Fails.DEADLINE:
        limit, nearest = time_text(limits.deadline_days or 0.0), f"the fastest takes {time_text(over.value)}"
    else:
        limit, nearest = f"{limits.budget_usd:,.2f} USD", f"the cheapest costs {over.value:,.2f} USD"
        if limits.deadline_days is not None:
            limit += f" and {time_text(limits.deadline_days)}"
            nearest = f"the cheapest by then costs {over.value:,.2f} USD"
    apart = f"; {len(result.unknown)} more fit whose speed is not known" if result.unknown else ""
    return f"No plan within {limit}; {nearest} {on}{apart}."
