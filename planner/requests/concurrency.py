"""One row a number of sequences at once: caches, need, and whether it fits; each row is a plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.estimate import plan
from planner.hardware import Tables
from planner.issues import ScenarioError
from planner.plan_types import Verdict
from planner.resolve import apply
from planner.scenario import Scenario, Workload
from planner.serving.ledgers import cache_bytes

REFERENCE: Final = "kv_cache"
STEPS: Final = (1, 4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The load at a number of sequences, on the fullest card.

    Attributes:
        sequences: At once, over all replicas.
        kv_bytes: Caches.
        needs_bytes: Everything.
        headroom_bytes: What is left; None where the card's size is not known.
        verdict: Of the whole job; None where the question has errors at this number.
    """

    sequences: int
    kv_bytes: int
    needs_bytes: int
    headroom_bytes: int | None
    verdict: Verdict | None


def table(scenario: Scenario, tables: Tables, numbers: Sequence[int] = STEPS) -> tuple[Row, ...]:
    """The rows.

    Args:
        scenario: The question; the number of sequences in it is replaced.
        tables: Cards, models and the rest.
        numbers: Sequences at once.
    """
    return tuple(_row(scenario, tables, number) for number in numbers)


def _row(scenario: Scenario, tables: Tables, number: int) -> Row:
    if scenario.workload is None:
        asked = scenario.model_copy(update={"workload": Workload(concurrency=number)})
    else:
        asked = apply(scenario, {"workload.concurrency": number})
    try:
        answer = plan(asked, tables)
    except ScenarioError:
        return Row(sequences=number, kv_bytes=0, needs_bytes=0, headroom_bytes=None, verdict=None)
    worst = answer.worst
    return Row(
        sequences=number,
        kv_bytes=cache_bytes(worst.ledger),
        needs_bytes=worst.peak_bytes,
        headroom_bytes=worst.headroom_bytes,
        verdict=answer.verdict,
    )
