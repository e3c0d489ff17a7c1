"""What clouds take and cost for training a 70B in full: the articles' table from the catalog, with our own times."""

from dataclasses import dataclass
from typing import Any, Final

from planner.claims.bytes_per_parameter import LLAMA_2_70B
from planner.claims.cost import CLOUDS, DAY_HOURS, JOB_TOKENS, CloudRow, cheapest
from planner.claims.training import full_training
from planner.claims.types import Claim, Figure, Outcome, planned
from planner.cost.run_cost import RunCost, run_cost
from planner.hardware import Tables
from planner.plan_types import Plan, Verdict
from planner.throughput.training_speed import training_speed

MOST_MACHINES: Final = 16
SEQUENCE: Final = 2048
MICRO_BATCH: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudRun:
    """The job on one cloud.

    Attributes:
        row: The articles' row.
        machines: Fewest that the plan fits on.
        plan: The plan there.
        run: Days and price with their bands; no price where the catalog has none.
    """

    row: CloudRow
    machines: int
    plan: Plan
    run: RunCost


def job_on(row: CloudRow, machines: int) -> dict[str, Any]:
    """Llama-2-70B in full, ZeRO-3 with checkpointing, one sequence of 2,048 tokens a card."""
    cards = machines * row.cards
    job = full_training(
        LLAMA_2_70B,
        cards=cards,
        gpu=row.gpu_id,
        checkpointing="full",
        micro_batch=MICRO_BATCH,
        sequence_length=SEQUENCE,
    )
    job["hardware"] = {**job["hardware"], "devices_per_node": row.cards}
    return job | {"runtime": {"name": "deepspeed"}, "parallel": {"sharding": "zero3"}}


def cloud_runs(tables: Tables, tokens: float = JOB_TOKENS) -> tuple[CloudRun, ...]:
    """The job on every cloud of the articles' table, on the fewest machines that hold it.

    Args:
        tables: Cards, servers, prices, constants.
        tokens: Tokens to train on.
    """
    found = (_run(row, tables, tokens) for row in CLOUDS)
    return tuple(run for run in found if run is not None)


def _run(row: CloudRow, tables: Tables, tokens: float) -> CloudRun | None:
    for machines in range(1, MOST_MACHINES + 1):
        made = planned(job_on(row, machines), tables)
        if made.verdict is Verdict.FITS:
            return CloudRun(
                row=row, machines=machines, plan=made, run=_cost(row, machines, made, tables, tokens)
            )
    return None


def _cost(row: CloudRow, machines: int, made: Plan, tables: Tables, tokens: float) -> RunCost:
    speed, offer = training_speed(made, tables), cheapest(row.instance, tables)
    price = None if offer is None or offer.usd_per_hour is None else offer.usd_per_hour * machines
    band = speed.band
    return run_cost(
        tokens=tokens,
        tokens_per_s=speed.tokens_per_s or 1.0,
        usd_per_hour=price,
        time_low_frac=1.0 if band is None else band.low_frac,
        time_high_frac=1.0 if band is None else band.high_frac,
    )


def e2(tables: Tables) -> Claim:
    """Four clouds for a stated job: 70B in full over 1e9 tokens, on the fewest machines that hold it."""
    figures = [
        Figure(name="tokens", said=None, found=JOB_TOKENS, unit="number"),
        Figure(name="tokens_of_a_card", said=None, found=MICRO_BATCH * SEQUENCE, unit="number"),
    ]
    for found in cloud_runs(tables):
        figures += _figures(found.row, found)
    return Claim(id="e2", outcome=Outcome.DEPENDS, figures=tuple(figures))


def _figures(row: CloudRow, found: CloudRun) -> list[Figure]:
    """Machines, days and price of one cloud, the latter two with their bands."""
    run = found.run
    said = row.price * row.days * DAY_HOURS if row.in_usd else None
    figures = [
        Figure(name=f"machines_{row.name}", said=1, found=found.machines, unit="count"),
        Figure(
            name=f"days_{row.name}", said=row.days, found=run.days, unit="days",
            low=run.low_days, high=run.high_days,
        ),
    ]  # fmt: skip
    if run.usd is not None:
        cost = Figure(
            name=f"cost_{row.name}", said=said, found=run.usd, unit="usd", low=run.low_usd, high=run.high_usd
        )
        figures.append(cost)
    return figures
