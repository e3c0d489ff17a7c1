"""What computing activations again saves and costs: the curve of bytes against time.

Two ways: a compiler that keeps at most a share of the activations (PyTorch's `activation_memory_budget`), and
checkpoints of whole layers, k of them together so that one input in k is kept. A compiler's step is the plain one and
the share of a forward pass that `planner.training.compile_budget` finds done again, at the time that full
checkpointing takes for all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from planner.estimate import plan as make_plan
from planner.hardware import Tables
from planner.issues import ScenarioError
from planner.ledger import Category, Phase
from planner.plan_types import Plan, Verdict
from planner.resolve import apply
from planner.runtimes.profile import Value
from planner.throughput.training_speed import training_speed
from planner.training.compile_budget import budget_curve

SHARES: Final = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)
EVERY: Final = (1, 2, 4, 8)
Way = Literal["compiler", "layers"]
KEPT: Final = frozenset({Category.ACTIVATIONS, Category.LOGITS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One amount of recomputation.

    Attributes:
        way: By a compiler's budget, or by whole layers.
        kept_frac: The compiler's budget; None for layers.
        every: Layers between two inputs that are kept, 0 where nothing is computed again; None for the compiler.
        activation_bytes: Most activations, logits and loss on the fullest card in any phase.
        peak_bytes: Of the fullest card.
        verdict: Of the plan.
        step_s: Seconds of a step; None where the tables lack a rate.
    """

    way: Way
    kept_frac: float | None
    every: int | None
    activation_bytes: int
    peak_bytes: int
    verdict: Verdict
    step_s: float | None


def curve(plan: Plan, tables: Tables) -> tuple[Point, ...]:
    """Every point that the job can be planned at, most memory first within each way.

    Args:
        plan: A plan of a job that trains.
        tables: Cards, constants and speed constants.

    Raises:
        ValueError: The plan serves.
    """
    if not plan.resolved.is_training:
        raise ValueError(f"task: {plan.resolved.task}; recomputation is of jobs that train")
    return (*_compiled(plan, tables), *_layers(plan, tables))


def _changed(plan: Plan, tables: Tables, changes: dict[str, Value]) -> Plan | None:
    try:
        return make_plan(apply(plan.scenario, changes), tables)
    except ScenarioError:
        return None


def _compiled(plan: Plan, tables: Tables) -> Iterator[Point]:
    """By budget: the share of a forward pass that is done again takes that share of full checkpointing's time."""
    plain: dict[str, Value] = {"runtime.compile": True, "training.checkpointing": "none"}
    whole = _changed(plan, tables, plain)
    again = _changed(plan, tables, {**plain, "training.checkpointing": "full"})
    if whole is None:
        return
    first, full = (
        None if made is None else training_speed(made, tables).step_time_s for made in (whole, again)
    )
    for budget in budget_curve(apply(plan.scenario, plain), tables, SHARES):
        made = _changed(plan, tables, {**plain, "training.recompute_budget_frac": budget.budget_frac})
        if made is not None:
            time = None if first is None or full is None else first + budget.again_frac * (full - first)
            yield _point("compiler", made, time, kept_frac=budget.budget_frac)


def _layers(plan: Plan, tables: Tables) -> Iterator[Point]:
    """Nothing computed again, then stretches of more and more layers."""
    num_layers = len(plan.model.layers)
    for every in (0, *(k for k in EVERY if k < num_layers)):
        kind = {0: "none", 1: "full"}.get(every, "every_k")
        changes: dict[str, Value] = {"training.checkpointing": kind}
        if kind == "every_k":
            changes["training.checkpoint_every"] = every
        made = _changed(plan, tables, changes)
        if made is not None:
            yield _point("layers", made, training_speed(made, tables).step_time_s, every=every)


def _point(
    way: Way, made: Plan, step_s: float | None, *, kept_frac: float | None = None, every: int | None = None
) -> Point:
    return Point(
        way=way,
        kept_frac=kept_frac,
        every=every,
        activation_bytes=_activations(made),
        peak_bytes=made.worst.peak_bytes,
        verdict=made.verdict,
        step_s=step_s,
    )


def _activations(made: Plan) -> int:
    ledger = made.worst.ledger

    def held(phase: Phase) -> int:
        return sum(size for kind, size in ledger.by_category(phase).items() if kind in KEPT)

    return max(held(phase) for phase in ledger.phases)
