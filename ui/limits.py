"""The largest job that still fits, and a map of sizes: found by planning, a plan a try."""

from collections.abc import Callable
from typing import Final

from planner.plan_types import Plan, Verdict
from ui.answers import answer
from ui.charts.fit_map import Cell, FitGrid
from ui.document import Document, put_all

LONGEST_SEQUENCE: Final = 1 << 20
SEQUENCE_STEP: Final = 128
LARGEST_BATCH: Final = 4096
MOST_TRIES: Final = 14

SEQUENCE: Final = "training.sequence_length"
MICRO_BATCH: Final = "training.micro_batch"
CONTEXT: Final = "serving.max_model_len"
CONCURRENCY: Final = "workload.concurrency"


def largest_sequence(document: Document, plan: Plan) -> int:
    """Longest sequence that fits at this micro-batch, in steps of 128 tokens, or to 1 % on long spans.

    Returns:
        Tokens, never beyond the model's own limit; 0 where even the shortest does not fit.
    """
    most = plan.model.max_position_embeddings or LONGEST_SEQUENCE
    steps = max(1, min(most, LONGEST_SEQUENCE) // SEQUENCE_STEP)
    return SEQUENCE_STEP * _largest(
        lambda n: _fits(document, {SEQUENCE: n * SEQUENCE_STEP}, plan),
        start=plan.resolved.training.sequence_length // SEQUENCE_STEP,
        most=steps,
    )


def largest_micro_batch(document: Document, plan: Plan) -> int:
    """Largest micro-batch that fits at this sequence length; 0 where not even one does."""
    return _largest(
        lambda n: _fits(document, {MICRO_BATCH: n}, plan),
        start=plan.resolved.training.micro_batch,
        most=LARGEST_BATCH,
    )


def fit_grid(document: Document, plan: Plan) -> FitGrid | None:
    """Twenty plans around this one, by sequence and micro-batch, or by context and concurrent sequences.

    Returns:
        The grid, or None where a server names neither context nor concurrency.
    """
    if plan.resolved.is_training:
        tokens, size = plan.resolved.training.sequence_length, plan.resolved.training.micro_batch
        column, row = SEQUENCE, MICRO_BATCH
    else:
        load = plan.resolved.workload
        if plan.resolved.serving.max_model_len is None or load is None or load.concurrency is None:
            return None
        tokens, size = plan.resolved.serving.max_model_len, load.concurrency
        column, row = CONTEXT, CONCURRENCY
    columns, rows = token_steps(tokens), size_steps(size)
    cells = tuple(
        tuple(_cell(document, plan, {column: c, row: r}, same=(c, r) == (tokens, size)) for c in columns)
        for r in rows
    )
    return FitGrid(columns=columns, rows=rows, cells=cells, current=(rows.index(size), columns.index(tokens)))


def token_steps(tokens: int) -> tuple[int, ...]:
    """Five lengths, each twice the one before, with this one among them."""
    first = tokens // 4 if tokens % 4 == 0 and tokens >= 1024 else tokens
    return tuple(first << n for n in range(5))


def size_steps(size: int) -> tuple[int, ...]:
    """Four sizes with this one among them."""
    if size == 1:
        return (1, 2, 4, 8)
    return (max(1, size // 2), size, size * 2, size * 4)


def _cell(document: Document, plan: Plan, changes: dict[str, int], *, same: bool) -> Cell:
    found = plan if same else answer(put_all(document, changes)).plan
    if found is None:
        return Cell(None, None)
    return Cell(found.worst.headroom_bytes, found.verdict)


def _fits(document: Document, changes: dict[str, int], plan: Plan) -> bool:
    """Whether it fits by the rule of the verdict, or by the estimate alone where there is no band."""
    found = answer(put_all(document, changes)).plan
    if found is None:
        return False
    if plan.verdict is Verdict.UNKNOWN:
        return found.worst.headroom_bytes is not None and found.worst.headroom_bytes >= 0
    return found.verdict is Verdict.FITS


def _largest(fits: Callable[[int], bool], *, start: int, most: int) -> int:
    """Largest n in 1 .. most with fits(n), for a test that is true up to some n; to 1 % on long spans."""
    low, high, n = 0, most + 1, min(max(start, 1), most)
    for _ in range(MOST_TRIES):
        if fits(n):
            low = n
        else:
            high = n
        if high - low <= max(1, low // 100):
            break
        n = (low + high) // 2 if low and high <= most else min(most, low * 4) if low else max(1, high // 4)
        if n in (low, high):
            n = (low + high) // 2
    return low
