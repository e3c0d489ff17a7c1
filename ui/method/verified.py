"""What each runtime and task is verified by: a traced step, published runs, or documented formulas alone."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from planner.plan_types import Known
from planner.runtimes.every import PROFILES
from planner.runtimes.profile import Profile
from ui.method.published import Published, Runs, Verdicts
from ui.tasks import TASKS

TRACED: Final = frozenset({("generic", "pretrain"), ("generic", "full")})
"""Paths whose live tensors equal a traced step of the Hugging Face classes on one device, eager or flash
attention: tests/planner/training/test_ledgers.py holds them. A trace sees no allocator cache, context or fused kernel,
and other runtimes differ in what they keep, so nothing else is called traced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """How one runtime and task is known.

    Attributes:
        known: `published` where its own runs make its band, as `Plan.known` says; else `none`.
        traced: Whether its live tensors were held against a traced step too.
        runs: Its scored runs; None without any.
        verdicts: Its scored verdicts; None without any.
        possible: Whether the runtime does this task at all.
    """

    runtime: str
    task: str
    known: Known
    traced: bool
    runs: Runs | None
    verdicts: Verdicts | None
    possible: bool


def table(score: Published) -> dict[str, tuple[Evidence, ...]]:
    """Evidence by runtime, in the order of `TASKS`; runtimes with the most runs first."""
    runs = {(row.runtime, row.task): row for row in score.runs}
    verdicts = {(row.runtime, row.task): row for row in score.verdicts}
    rows = {
        profile.name: tuple(_evidence(profile, task, runs, verdicts) for task in TASKS)
        for profile in PROFILES.values()
    }
    return dict(sorted(rows.items(), key=lambda item: (-_total(item[1]), item[0])))


def _evidence(
    profile: Profile,
    task: str,
    runs: dict[tuple[str, str], Runs],
    verdicts: dict[tuple[str, str], Verdicts],
) -> Evidence:
    found = runs.get((profile.name, task))
    own_band = found is not None and found.low_frac is not None
    kind = "serving" if task == "serve" else "training"
    return Evidence(
        runtime=profile.name,
        task=task,
        known=Known.PUBLISHED if own_band else Known.NONE,
        traced=(profile.name, task) in TRACED,
        runs=found,
        verdicts=verdicts.get((profile.name, task)),
        possible=profile.kind in {kind, "both"},
    )


def _total(row: Iterable[Evidence]) -> int:
    return sum(evidence.runs.n for evidence in row if evidence.runs is not None)
