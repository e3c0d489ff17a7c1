"""What a tape of a block holds: tensors, operations, what is trained, and what comes of them."""

from dataclasses import dataclass, field
from typing import Final

from planner.memory.terms import Terms

WIDE: Final = 4
"""Bytes of an fp32 element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trains:
    """What of a block is trained.

    Attributes:
        full: Every weight.
        sites: Names of the matrices with an adapter, as the block's layer has them.
        adapter_bytes: Bytes of an adapter's element.
        dora: The adapters scale each output (DoRA).
        dropout: The adapters drop out of their input.
        modulation: An adapter is on the way of what the time step says, so that scales and gates need gradients.
    """

    full: bool = False
    sites: frozenset[str] = frozenset()
    adapter_bytes: int = WIDE
    dora: bool = False
    dropout: bool = False
    modulation: bool = False


@dataclass(frozen=True, slots=True)
class Peak:
    """What is alive at the fullest moment.

    Attributes:
        bytes: Bytes per token.
        terms: The same by width.
    """

    bytes: float
    terms: Terms


@dataclass(frozen=True, slots=True)
class Trace:
    """A block worked out.

    Attributes:
        kept: What stays for the backward pass, the block's own input and output left out.
        outputs: The block's output.
        forward: The fullest moment of the forward pass, beside the input.
        backward: The fullest moment of the backward pass, beside the input and without gradients of weights.
        plain: The fullest moment of a forward pass without gradients, beside the input.
        again: The fullest moment of the forward pass done again in the backward pass, beside the input: the gradient of
            the output is there, and it stops when all that was saved is there again.
    """

    kept: Terms
    outputs: Terms
    forward: Peak
    backward: Peak
    plain: Peak
    again: Peak


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor: its storage, the width it multiplies, bytes of an element, whether a gradient flows to it."""

    storage: int
    width: str
    bytes: float
    flows: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    Attributes:
        reads: Tensors it reads.
        makes: Tensors it makes.
        saves: Tensors kept for its backward pass.
        new: Inputs whose gradient is a tensor of its own.
        same: Those that take the output's.
        working: What it has beside them on the way.
        working_back: The same in its backward pass.
        segment: Number of the part that is computed again in the backward pass; 0 for none.
        arrives: Elements of weights whose gradients come with its backward pass.
    """

    reads: tuple[int, ...]
    makes: tuple[int, ...]
    saves: tuple[int, ...]
    new: tuple[int, ...] = ()
    same: tuple[int, ...] = ()
    working: Terms = field(default_factory=dict)
    working_back: Terms = field(default_factory=dict)
    segment: int = 0
    arrives: int = 0
