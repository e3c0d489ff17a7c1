"""What the tape of a network holds: tensors, operations, and how the network runs."""

from dataclasses import dataclass, field
from typing import Final

from planner.ledger import Category
from planner.memory.terms import Terms

WIDE: Final = 4
"""Bytes of an fp32 element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """How a network runs.

    Attributes:
        compute_bytes: Bytes of an element of a product.
        stored_bytes: Bytes of an element of a parameter that was there before.
        given_bytes: Bytes of an element of the sound that is put in.
        autocast: Products are cast to 16 bit, norms and softmax to fp32.
        trains: Every parameter gets a gradient; otherwise adapters and the classifier alone.
        sites: Matrices with an adapter, by name.
        adapter_bytes: Bytes of an element of an adapter.
        adapter_dropout: The adapters drop out of their input.
        rank: Rank of the adapters.
        drops: The model drops out.
        eager: Attention in single steps.
        flash: A fused kernel without a mask may be flash or cuDNN; otherwise it is the memory-efficient one.
        checkpointed: Layers are computed again in the backward pass.
        stops_early: Such a layer stops at the last tensor that is asked for.
    """

    compute_bytes: int
    stored_bytes: int
    given_bytes: int = WIDE
    autocast: bool = False
    trains: bool = True
    sites: frozenset[str] = frozenset()
    adapter_bytes: int = WIDE
    adapter_dropout: bool = False
    rank: int = 0
    drops: bool = False
    eager: bool = False
    flash: bool = True
    checkpointed: bool = False
    stops_early: bool = True

    @property
    def casts(self) -> bool:
        """Whether weights are wider than products."""
        return self.autocast and self.stored_bytes > self.compute_bytes


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor: its storage, its elements as a product of symbols, bytes of one, whether a gradient flows to it."""

    storage: int
    key: str
    bytes: float
    flows: bool
    category: Category


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    Attributes:
        reads: Tensors it reads.
        makes: Tensors it makes.
        saves: Tensors kept for its backward pass.
        new: Inputs whose gradient is a tensor of its own.
        same: Those that take the output's.
        working: What its kernel takes in its backward pass.
        working_back: Tensors that are there beside the gradients in its backward pass.
        segment: Number of the part that is computed again in the backward pass; 0 for none.
        arrives: Elements of weights whose gradients come with its backward pass.
        added: Those of a weight whose gradient is then added to another that waits: both and their sum are there.
        leaf: What it makes is a leaf of the graph, which holds it and its gradient to the end.
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
    added: int = 0
    leaf: bool = False
