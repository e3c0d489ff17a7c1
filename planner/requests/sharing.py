"""Blocks that several sequences share: samples of one prompt, beams, a common beginning.

Only whole blocks are shared. A block that several sequences hold is copied when one of them writes into it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.requests.errors import RequestsInputError, positive, share
from planner.requests.lengths import SEED
from planner.units import ceil_div

REFERENCE: Final = "paged_attention"
MOST_STEPS: Final = 4096
"""Longest answer that is simulated step by step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Blocks with and without sharing.

    Attributes:
        separate: Every sequence has blocks of its own.
        shared: Blocks in common are held once.
    """

    separate: int
    shared: int

    @property
    def saved_frac(self) -> float:
        """Share of the separate blocks that sharing saves."""
        return 1 - self.shared / self.separate if self.separate else 0.0


def parallel_samples(*, prompt_tokens: int, answer_tokens: int, samples: int, block_tokens: int) -> Blocks:
    """Several answers to one prompt, at their end: whole blocks of the prompt once, the rest per answer.

    Reference: paged_attention, section 4.4, parallel sampling.

    Args:
        prompt_tokens: Prompt.
        answer_tokens: Length of each answer.
        samples: Answers.
        block_tokens: Size of a block.

    Raises:
        RequestsInputError: One of them is not above zero.
    """
    _check(prompt_tokens, answer_tokens, samples, block_tokens)
    whole = prompt_tokens // block_tokens
    each = ceil_div(prompt_tokens + answer_tokens, block_tokens)
    return Blocks(separate=samples * each, shared=whole + samples * (each - whole))


def beams(
    *, prompt_tokens: int, answer_tokens: int, width: int, block_tokens: int, seed: int = SEED
) -> Blocks:
    """Beam search with copy on write: the most blocks held at any step of one seeded run.

    After every step each of the `width` survivors continues a beam drawn at random, all alike. That is an
    assumption: which beams survive depends on the model. At worst no survivors share what they wrote, which is
    what `parallel_samples` counts. Reference: paged_attention, section 4.4, beam search.

    Args:
        prompt_tokens: Prompt.
        answer_tokens: Steps, at most `MOST_STEPS`.
        width: Beams.
        block_tokens: Size of a block.
        seed: Of the draw.

    Raises:
        RequestsInputError: One of them is not above zero, or there are too many steps.
    """
    _check(prompt_tokens, answer_tokens, width, block_tokens)
    if answer_tokens > MOST_STEPS:
        raise RequestsInputError("workload.output_tokens", answer_tokens, "ordered")
    generator = np.random.default_rng(seed)
    common = prompt_tokens // block_tokens
    columns = ceil_div(prompt_tokens + answer_tokens, block_tokens) - common
    table = np.full((width, max(1, columns)), -1, dtype=np.int64)
    if prompt_tokens % block_tokens:
        table[:, 0] = 0
    fresh, most = 1, int(bool(prompt_tokens % block_tokens))
    for step in range(answer_tokens):
        if step:
            table = table[generator.integers(0, width, width)]
        column = (prompt_tokens + step) // block_tokens - common
        _, first = np.unique(table[:, column], return_index=True)
        copies = np.ones(width, dtype=bool)
        if table[0, column] >= 0:
            copies[first] = False
        number = int(copies.sum())
        table[copies, column] = np.arange(fresh, fresh + number)
        fresh += number
        most = max(most, int(np.unique(table[:, : column + 1]).size))
    each = ceil_div(prompt_tokens + answer_tokens, block_tokens)
    return Blocks(separate=width * each, shared=common + most)


def common_beginning(
    *, prefix_tokens: int, request_tokens: int, requests: int, hit_frac: float, block_tokens: int
) -> Blocks:
    """Requests that begin alike: whole blocks of the beginning are held once for those that hit.

    Reference: paged_attention, section 4.4, shared prefix.

    Args:
        prefix_tokens: Tokens in common.
        request_tokens: Length of a request in all.
        requests: How many at once.
        hit_frac: Share of them that has the beginning; the number is rounded down.
        block_tokens: Size of a block.

    Raises:
        RequestsInputError: A number is not above zero, the share is none, or the prefix is longer than a request.
    """
    positive("requests", requests)
    positive("serving.block_size", block_tokens)
    share("workload.prefix_hit_frac", hit_frac)
    if not 0 <= prefix_tokens <= request_tokens:
        raise RequestsInputError("workload.shared_prefix_tokens", prefix_tokens, "ordered")
    each = ceil_div(request_tokens, block_tokens)
    hits = int(requests * hit_frac)
    once = prefix_tokens // block_tokens if hits else 0
    return Blocks(separate=requests * each, shared=requests * each - max(0, hits - 1) * once)


def prefill_saved_tokens(*, prefix_tokens: int, requests: int, hit_frac: float, block_tokens: int) -> int:
    """Prompt tokens that are not worked out again: whole blocks, for every hit but the first.

    Args:
        prefix_tokens: Tokens in common.
        requests: How many.
        hit_frac: Share of them that has the beginning; the number is rounded down.
        block_tokens: Size of a block.
    """
    hits = int(requests * hit_frac)
    return max(0, hits - 1) * (prefix_tokens // block_tokens) * block_tokens


def _check(prompt_tokens: int, answer_tokens: int, sequences: int, block_tokens: int) -> None:
    if prompt_tokens < 0:
        raise RequestsInputError("workload.prompt_tokens", prompt_tokens, "positive")
    positive("workload.output_tokens", answer_tokens)
    positive("workload.beam_width", sequences)
    positive("serving.block_size", block_tokens)
