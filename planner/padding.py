"""Rows of different length in one batch: padded to a limit, to the longest of their batch, sorted first, or packed.

Only tokens are counted: what a step computes against what the data hold. `grouped` sorts within stretches of fifty
batches, as Transformers' `LengthGroupedSampler` does; `packed` fills rows of the limit first-fit, longest first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.requests.errors import RequestsInputError, positive
from planner.requests.lengths import SEED, Tokens
from planner.units import ceil_div

REFERENCES: Final = {"grouped": "length_grouping", "packed": "sequence_packing"}
STRETCH: Final = 50
"""Batches that are sorted together (`mega_batch_mult`)."""
MOST_ROWS: Final = 20_000
"""Rows that are packed: filling is looked for row by row."""


class Way(StrEnum):
    """How rows come to one length."""

    STATIC = "static"
    DYNAMIC = "dynamic"
    GROUPED = "grouped"
    PACKED = "packed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """The rows of a data set, one way.

    Attributes:
        way: Which.
        steps: Batches.
        computed_tokens: Tokens of all batches, padding included.
        real_tokens: Tokens of the data.
        longest_row: Longest row of any batch, padded: what decides the peak.
    """

    way: Way
    steps: int
    computed_tokens: int
    real_tokens: int
    longest_row: int

    @property
    def wasted_frac(self) -> float:
        """Share of the computed tokens that is padding."""
        return 1 - self.real_tokens / self.computed_tokens


def ways(lengths: Tokens, *, batch: int, limit: int, seed: int = SEED) -> tuple[Batches, ...]:
    """Every way for the same rows.

    Args:
        lengths: Tokens of each row, shape (n,); longer ones are cut at the limit, as trainers do.
        batch: Rows of a batch.
        limit: Length that static padding and packing fill up to.
        seed: Of the shuffle.

    Raises:
        RequestsInputError: There is no row, or a number is not positive.
    """
    positive("training.micro_batch", batch)
    positive("training.sequence_length", limit)
    if not lengths.size or bool((lengths < 1).any()):
        raise RequestsInputError("number", int(lengths.size), "positive")
    rows = np.minimum(lengths, limit)
    shuffled = np.random.default_rng(seed).permutation(rows)
    return (
        _static(rows, batch, limit),
        _padded(Way.DYNAMIC, shuffled, batch),
        _padded(Way.GROUPED, _grouped(shuffled, batch), batch),
        _packed(rows, batch, limit),
    )


def _static(rows: Tokens, batch: int, limit: int) -> Batches:
    return Batches(
        way=Way.STATIC,
        steps=ceil_div(rows.size, batch),
        computed_tokens=rows.size * limit,
        real_tokens=int(rows.sum()),
        longest_row=limit,
    )


def _padded(way: Way, rows: Tokens, batch: int) -> Batches:
    """Each batch as long as its longest row."""
    starts = np.arange(0, rows.size, batch)
    most: NDArray[np.int64] = np.maximum.reduceat(rows, starts)
    sizes = np.minimum(batch, rows.size - starts)
    return Batches(
        way=way, steps=starts.size, computed_tokens=int((most * sizes).sum()), real_tokens=int(rows.sum()),
        longest_row=int(most.max()),
    )  # fmt: skip


def _grouped(rows: Tokens, batch: int) -> Tokens:
    stretch = STRETCH * batch
    parts = [np.sort(rows[start : start + stretch])[::-1] for start in range(0, rows.size, stretch)]
    return np.concatenate(parts)


def _packed(rows: Tokens, batch: int, limit: int) -> Batches:
    """First fit, longest first; of very many rows a part stands for all."""
    part = np.sort(rows[:MOST_ROWS])[::-1]
    filled = len(_bins(part.tolist(), limit))
    filled = ceil_div(filled * rows.size, part.size)
    return Batches(
        way=Way.PACKED, steps=ceil_div(filled, batch), computed_tokens=filled * limit, real_tokens=int(rows.sum()),
        longest_row=limit,
    )  # fmt: skip


def _bins(rows: Sequence[int], limit: int) -> list[int]:
    """Room left in each packed row; each row goes into the fullest that still has room for it."""
    by_room: list[int] = [0] * (limit + 1)
    for row in rows:
        room = next((left for left in range(row, limit) if by_room[left]), limit)
        if room < limit:
            by_room[room] -= 1
        by_room[room - row] += 1
    return [left for left, count in enumerate(by_room) for _ in range(count)]
