"""What a compiler's memory budget costs: bytes kept against operations done again.

Of everything a layer keeps beyond its input, what costs least to make again per byte goes first: norms, activations and
rotations nothing that counts, then the projections, attention last where sequences are long. The budget is the share of
those bytes that may stay (`torch._functorch.config.activation_memory_budget`), the choice a knapsack.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from planner.estimate import plan
from planner.hardware import Tables
from planner.memory.terms import Terms
from planner.placement_fit import place_job
from planner.scenario import Scenario
from planner.training.ledgers import held_tensors
from planner.training.setup import setup_for
from planner.training.step import Kind, Step

BUDGETS: Final = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
PRODUCTS: Final = {"q": 1, "k": 1, "v": 1, "i": 2, "si": 2, "xi": 2}
"""Matrix products that make what is kept over a width; two where a gate and an up projection are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPoint:
    """One budget.

    Attributes:
        budget_frac: Share of the activations that may stay.
        peak_bytes: Fullest moment of the worst card.
        again_flops: Operations done again in a micro-batch on that card.
        again_frac: The same as a share of the layers' forward pass.
    """

    budget_frac: float
    peak_bytes: int
    again_flops: float
    again_frac: float


def budget_curve(
    scenario: Scenario, tables: Tables, budgets: Sequence[float] = BUDGETS
) -> tuple[BudgetPoint, ...]:
    """The plan at every budget, from everything kept to every layer's input alone.

    Args:
        scenario: A training job that is compiled.
        tables: Constants of the hardware tables.
        budgets: Shares between 0 and 1.
    """
    return tuple(_point(scenario, tables, budget) for budget in budgets)


def _point(scenario: Scenario, tables: Tables, budget: float) -> BudgetPoint:
    training = scenario.training.model_copy(update={"recompute_budget_frac": budget})
    answer = plan(scenario.model_copy(update={"training": training}), tables)
    shares = place_job(answer.resolved, answer.model, tables)
    share = next(share for share in shares if share.indices == answer.worst.indices)
    setup = setup_for(share, answer.resolved, answer.model)
    step = Step(share, setup, answer.model, *held_tensors(share, answer.model, setup))
    again, forward = passes(step, budget)
    return BudgetPoint(
        budget_frac=budget,
        peak_bytes=answer.worst.ledger.peak()[1],
        again_flops=again,
        again_frac=again / forward if forward else 0.0,
    )


def passes(step: Step, budget: float) -> tuple[float, float]:
    """Operations of a micro-batch that are done again, and those of the layers' forward pass."""
    again = forward = 0.0
    for kind in step.kinds:
        tokens = kind.count * step.setup.batch * kind.sequence
        pieces = kept_pieces(kind, step.model.hidden_size)
        again += tokens * done_again(pieces, budget)
        forward += tokens * sum(flops for _, flops in pieces) + tokens * _ends(kind, step.model.hidden_size)
    return again, forward


def kept_pieces(kind: Kind, hidden: int) -> list[tuple[float, float]]:
    """(bytes, operations to make it again) per token of what a layer keeps, by width."""
    form, found = kind.form, []
    terms: Terms = form.terms
    for width, size in terms.items():
        if not size or not width:
            continue
        wide = form.widths[width]
        flops = PRODUCTS.get(width, 0) * 2.0 * hidden * wide
        if width == "o":
            flops = 2.0 * kind.sequence * wide
        found.append((size * wide, flops))
    return found


def done_again(pieces: Iterable[tuple[float, float]], budget: float) -> float:
    """Operations per token, the cheapest bytes first, until no more than the budget's share is left."""
    ordered = sorted(pieces, key=lambda piece: piece[1] / piece[0])
    left = (1 - budget) * sum(size for size, _ in ordered)
    total = 0.0
    for size, flops in ordered:
        part = min(1.0, left / size)
        total += part * flops
        left -= part * size
        if left <= 0:
            break
    return total


def _ends(kind: Kind, hidden: int) -> float:
    """The output and the down projection, whose results no layer keeps."""
    widths = kind.form.widths
    return 2.0 * hidden * sum(widths[x] for x in ("o", "i", "si", "xi") if kind.form.terms.get(x))
