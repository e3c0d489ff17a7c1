"""Chunked prefill: what a step's size does to the working memory, and how many steps a prompt takes.

The bytes are those of real plans with another step size. A longer prompt takes more steps, and a running
sequence waits for at most one chunk between two of its tokens; the times of steps are not known here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.estimate import plan
from planner.hardware import Tables
from planner.issues import ScenarioError
from planner.ledger import Category, Phase
from planner.plan_types import Plan
from planner.requests.errors import positive
from planner.resolve import apply
from planner.scenario import Scenario
from planner.units import ceil_div

REFERENCE: Final = "chunked_prefill"
SIZES: Final = (256, 512, 2048, 4096, 8192, 16384, 32768)
HELD: Final = frozenset({Category.WEIGHTS, Category.KV_CACHE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One step size.

    Attributes:
        tokens: Most tokens of a step.
        working_bytes: What a prefill step needs beside weights and caches, on the fullest card.
        pool_bytes: Left for the caches; None where the engine has no pool.
        steps: Steps that the prompt takes.
    """

    tokens: int
    working_bytes: int
    pool_bytes: int | None
    steps: int


def by_size(
    scenario: Scenario, tables: Tables, *, prompt_tokens: int, sizes: Sequence[int] = SIZES
) -> tuple[Chunk, ...]:
    """One row a step size, no larger than the first that holds the whole prompt.

    Args:
        scenario: The question; its step size is replaced.
        tables: Cards, models and the rest.
        prompt_tokens: Prompt.
        sizes: Step sizes, ascending.

    Raises:
        RequestsInputError: The prompt is empty.
    """
    positive("workload.prompt_tokens", prompt_tokens)
    found: list[Chunk] = []
    for size in sizes:
        try:
            answer = plan(apply(scenario, {"serving.batched_tokens": size}), tables)
        except ScenarioError:
            continue
        found.append(_chunk(answer, size, prompt_tokens))
        if size >= prompt_tokens:
            break
    return tuple(found)


def _chunk(answer: Plan, size: int, prompt_tokens: int) -> Chunk:
    ledger = answer.worst.ledger
    parts = ledger.by_category(Phase.PREFILL)
    served = answer.serving
    return Chunk(
        tokens=size,
        working_bytes=sum(amount for category, amount in parts.items() if category not in HELD),
        pool_bytes=served.kv_pool_bytes if served is not None and served.budget_bytes is not None else None,
        steps=ceil_div(prompt_tokens, size),
    )
