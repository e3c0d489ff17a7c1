"""How much of a KV cache holds tokens: blocks taken as they fill, against room reserved at the start.

A request of p prompt tokens and L in all holds p + 1, p + 2, ..., L tokens, one step each. Held room is summed
over these steps, in closed form, so that a share is a mean over time and over requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from planner.requests.errors import RequestsInputError, positive
from planner.requests.lengths import Tokens

REFERENCE: Final = "paged_attention"
BLOCKS: Final = (1, 8, 16, 32, 64, 128, 256)


class Policy(StrEnum):
    """How room is taken."""

    PAGED = "paged"
    POWER_OF_TWO = "power_of_two"
    LONGEST = "longest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Room of one policy.

    Attributes:
        policy: How room is taken.
        block_tokens: Size of a block; None where the room is one piece.
        used_frac: Tokens there are over tokens there is room for.
        held_tokens: Room of one request, the mean over its life.
    """

    policy: Policy
    block_tokens: int | None
    used_frac: float
    held_tokens: float

    def requests_in(self, pool_tokens: int) -> float:
        """How many requests a pool holds on average: room that falls free is given to another at once."""
        return pool_tokens / self.held_tokens


def compare(prompt: Tokens, total: Tokens, *, longest: int, blocks: Sequence[int] = BLOCKS) -> list[Held]:
    """Every policy for the same requests.

    Args:
        prompt: Prompt tokens of each request, shape (n,).
        total: Prompt and answer, shape (n,), each larger than its prompt.
        longest: What the server reserves where it reserves the longest there may be.
        blocks: Block sizes.

    Returns:
        Paged by block size, then the power of two, then the longest.

    Raises:
        RequestsInputError: There are no requests, or a length is above `longest` or not above its prompt.
    """
    _check(prompt, total, longest)
    for block in blocks:
        positive("serving.block_size", block)
    return [
        *(paged(prompt, total, block) for block in blocks),
        power_of_two(prompt, total),
        reserved(prompt, total, longest),
    ]


def paged(prompt: Tokens, total: Tokens, block: int) -> Held:
    """Blocks of `block` tokens, one more whenever the last is full. Reference: paged_attention, section 4."""
    held = block * float((_blocks_up_to(total, block) - _blocks_up_to(prompt, block)).sum())
    return _held(Policy.PAGED, block, prompt, total, held)


def power_of_two(prompt: Tokens, total: Tokens) -> Held:
    """The answer's room, rounded up to a power of two. Reference: paged_attention, section 6.1, Orca (Pow2)."""
    answer = total - prompt
    room = prompt + 2 ** np.ceil(np.log2(answer)).astype(np.int64)
    return _held(Policy.POWER_OF_TWO, None, prompt, total, float((room * answer).sum()))


def reserved(prompt: Tokens, total: Tokens, longest: int) -> Held:
    """The longest there may be, in one piece from the start. Reference: paged_attention, section 6.1, Orca (Max)."""
    return _held(Policy.LONGEST, None, prompt, total, float(longest) * float((total - prompt).sum()))


def _held(policy: Policy, block: int | None, prompt: Tokens, total: Tokens, held: float) -> Held:
    steps = float((total - prompt).sum())
    used = float((total * (total + 1) - prompt * (prompt + 1)).sum()) / 2
    return Held(policy=policy, block_tokens=block, used_frac=used / held, held_tokens=held / steps)


def _blocks_up_to(tokens: Tokens, block: int) -> Tokens:
    """Sum of ceil(k / block) for k from 1 to each number of tokens."""
    whole, rest = tokens // block, tokens % block
    result: Tokens = block * whole * (whole + 1) // 2 + rest * (whole + 1)
    return result


def _check(prompt: Tokens, total: Tokens, longest: int) -> None:
    if not total.size:
        raise RequestsInputError("number", 0, "positive")
    if int(total.max()) > longest:
        raise RequestsInputError("longest", longest, "ordered")
    if bool((prompt < 0).any()) or bool((prompt >= total).any()):
        raise RequestsInputError("workload.prompt_tokens", int(prompt.max()), "ordered")
