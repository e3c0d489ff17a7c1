"""The largest job that still fits, and a map of sizes: each from one sweep over the sizes in question."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.estimate import SEVERITY
from planner.memory.serving_demand import workload_tokens
from planner.model.own_tokens import own_tokens
from planner.placement_llama_cpp import LLAMA_FAMILY
from planner.plan_types import Plan, Verdict
from planner.scenario import Scenario
from planner.sweep import Sweep, sweep
from planner.sweep.grid import REFUSED, UNKNOWN_BYTES
from ui import answers
from ui.answers import REMEMBERED
from ui.charts.fit_map import Cell, FitGrid
from ui.document import Document, canonical
from ui.kept_runs import Stamp, stamp

LONGEST_SEQUENCE: Final = 1 << 20
SEQUENCE_STEP: Final = 128
SHORTEST_STEP: Final = 512
LARGEST_BATCH: Final = 4096

SEQUENCE: Final = "sequence_length"
MICRO_BATCH: Final = "micro_batch"
CONTEXT: Final = "max_model_len"
CONCURRENCY: Final = "concurrency"


@dataclass(frozen=True, slots=True)
class _Question:
    """A document's text with its plan; equal where the text and the runs kept to calibrate it are."""

    text: str
    plan: Plan = field(compare=False)
    kept: Stamp = field(default_factory=stamp)


def largest_sequence(document: Document, plan: Plan) -> int:
    """Longest sequence up to which everything fits at this micro-batch, in steps of 128 tokens.

    Returns:
        Tokens, never beyond the model's own limit, or the number it has whatever is asked; 0 where even the shortest
        that holds the pictures does not fit.
    """
    return _largest_sequence(_Question(canonical(document), plan))


@lru_cache(maxsize=REMEMBERED)
def _largest_sequence(question: _Question) -> int:
    plan = question.plan
    own = own_tokens(plan.model)
    if own is not None:
        found = _training(plan, (plan.resolved.training.micro_batch,), (own.sequence,))
        return own.sequence * _leading(_fits(found, plan)[0])
    most = min(plan.model.max_position_embeddings or LONGEST_SEQUENCE, LONGEST_SEQUENCE)
    lengths = _lengths(_picture_tokens(plan), most)
    if not lengths:
        return 0
    batch = plan.resolved.training.micro_batch
    if plan.model.latents is not None:
        count = _last_that_fits(lengths, lambda length: _training(plan, (batch,), (length,)), plan)
    else:
        count = _leading(_fits(_training(plan, (batch,), lengths), plan)[0])
    return lengths[count - 1] if count else 0


def _lengths(filled: int, most: int) -> range:
    """Lengths to ask about: those with room for text beside the tokens that pictures fill."""
    shortest = (filled // SEQUENCE_STEP + 1) * SEQUENCE_STEP
    return range(shortest, max(most, SEQUENCE_STEP) + 1, SEQUENCE_STEP)


def _picture_tokens(plan: Plan) -> int:
    """Tokens of a sequence that are pictures'."""
    training, tower = plan.resolved.training, plan.model.tower
    return training.images * tower.tokens(training.image_pixels) if tower and training.images else 0


def largest_micro_batch(document: Document, plan: Plan) -> int:
    """Largest micro-batch up to which everything fits at this sequence length; 0 where not even one does."""
    return _largest_micro_batch(_Question(canonical(document), plan))


@lru_cache(maxsize=REMEMBERED)
def _largest_micro_batch(question: _Question) -> int:
    plan = question.plan
    sizes = range(1, LARGEST_BATCH + 1)
    if plan.model.latents is not None:
        length = plan.resolved.training.sequence_length
        return _last_that_fits(sizes, lambda size: _training(plan, (size,), (length,)), plan)
    return _leading(_fits(_training(plan, sizes, (plan.resolved.training.sequence_length,)), plan)[:, 0])


def fit_grid(document: Document, plan: Plan) -> FitGrid | None:
    """The plans around this one, by sequence and micro-batch, or by context and concurrent sequences.

    Returns:
        The grid, or None where a server names neither context nor concurrency.
    """
    return _fit_grid(_Question(canonical(document), plan))


@lru_cache(maxsize=REMEMBERED)
def _fit_grid(question: _Question) -> FitGrid | None:
    plan = question.plan
    current: tuple[int, int] | None
    if plan.resolved.is_training:
        tokens, size = plan.resolved.training.sequence_length, plan.resolved.training.micro_batch
        limit = plan.model.max_position_embeddings
        fixed = own_tokens(plan.model) is not None
        columns = (tokens,) if fixed else token_steps(tokens, max(limit, tokens) if limit else None)
        rows = size_steps(size)
        current = (rows.index(size), columns.index(tokens))
        found = _training(plan, rows, columns)
        cells = tuple(tuple(_cell(found, i, j) for j in range(len(columns))) for i in range(len(rows)))
    else:
        load = plan.resolved.workload
        if plan.resolved.serving.max_model_len is None or load is None or load.concurrency is None:
            return None
        tokens, size = plan.resolved.serving.max_model_len, load.concurrency
        columns, rows = token_steps(tokens, plan.model.max_position_embeddings), size_steps(size)
        current = (rows.index(size), columns.index(tokens))
        found = sweep(
            _at_full_length(plan.scenario),
            answers.tables_for(plan.scenario),
            (CONTEXT, columns),
            (CONCURRENCY, rows),
        )
        if plan.resolved.runtime.name not in LLAMA_FAMILY and workload_tokens(plan.scenario) is not None:
            current = None
        cells = tuple(tuple(_cell(found, j, i) for j in range(len(columns))) for i in range(len(rows)))
    return FitGrid(columns=columns, rows=rows, cells=cells, current=current)


def _at_full_length(scenario: Scenario) -> Scenario:
    """The same server with every sequence as long as the context: what a map of contexts is about.

    The llama.cpp family takes the whole context at the start and shares it out, so there the load stays.
    """
    if scenario.workload is None or scenario.runtime.name in LLAMA_FAMILY:
        return scenario
    load = scenario.workload.model_copy(update={"prompt_tokens": None, "output_tokens": None})
    return scenario.model_copy(update={"workload": load})


def token_steps(tokens: int, most: int | None = None) -> tuple[int, ...]:
    """Five lengths, each twice the one before, with this one among them.

    Args:
        tokens: The length in question.
        most: The model's own limit; steps beyond it are left out where there are shorter ones to take.
    """
    first = tokens // 4 if tokens % 4 == 0 and tokens >= 1024 else tokens
    while most is not None and tokens <= most < first << 4 and first % 2 == 0 and first >= SHORTEST_STEP:
        first //= 2
    return tuple(first << n for n in range(5))


def size_steps(size: int) -> tuple[int, ...]:
    """Four sizes with this one among them."""
    if size == 1:
        return (1, 2, 4, 8)
    return (max(1, size // 2), size, size * 2, size * 4)


def _training(plan: Plan, batches: Sequence[int], lengths: Sequence[int]) -> Sweep:
    return sweep(
        plan.scenario, answers.tables_for(plan.scenario), (MICRO_BATCH, batches), (SEQUENCE, lengths)
    )


def _cell(found: Sweep, i: int, j: int) -> Cell:
    code, headroom = int(found.verdicts[i, j]), int(found.headroom_bytes[i, j])
    if code == REFUSED:
        return Cell(None, None)
    return Cell(None if headroom == UNKNOWN_BYTES else headroom, SEVERITY[code])


def _fits(found: Sweep, plan: Plan) -> NDArray[np.bool_]:
    """Whether it fits by the rule of the verdict, or by the estimate alone where there is no band."""
    by_estimate: NDArray[np.bool_] = (found.verdicts != REFUSED) & (found.headroom_bytes >= 0)
    by_verdict: NDArray[np.bool_] = found.verdicts == SEVERITY.index(Verdict.FITS)
    return by_estimate if plan.verdict is Verdict.UNKNOWN else by_verdict


def _last_that_fits(sizes: Sequence[int], found_at: Callable[[int], Sweep], plan: Plan) -> int:
    """How many of the first fit, by halves: a denoiser's tokens are a picture's and a text's, no formula of one size.

    A larger picture and a larger batch never need less.
    """
    low, high = 0, len(sizes)
    while low < high:
        middle = (low + high) // 2
        if _fits(found_at(sizes[middle]), plan)[0, 0]:
            low = middle + 1
        else:
            high = middle
    return low


def _leading(fits: NDArray[np.bool_]) -> int:
    """How many of the first fit without a gap."""
    gaps = np.flatnonzero(~fits)
    return int(gaps[0]) if gaps.size else len(fits)
