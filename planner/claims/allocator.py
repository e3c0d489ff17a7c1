"""Claims about what frees memory: cuDNN's search, emptying the cache, inactive blocks."""

from typing import Final

from planner.claims.bytes_per_parameter import LLAMA_2_7B
from planner.claims.training import full_training
from planner.claims.types import Claim, Figure, Outcome, planned, worked
from planner.hardware import Tables
from planner.ledger import Category, Layer, Phase
from planner.units import MIB

SEGMENT: Final = 20 * MIB
"""What PyTorch asks the driver for where a request lies between 1 and 10 MiB (`kLargeBuffer`)."""
PIECE: Final = 8 * MIB


def g28(_tables: Tables) -> Claim:
    """The search may take an algorithm with a large workspace; a model without convolutions has none to search for."""
    symbols = {"b": 32, "C": 64, "K": 64, "R": 3, "H": 56, "e": 2}
    b, channels, kernels, taps, side, size = symbols.values()
    written = b * kernels * side * side * size
    space = b * channels * taps * taps * side * side * size
    figures = (
        worked("output", None, "bytes", "b*K*H*H*e", {k: symbols[k] for k in "bKHe"}, written),
        Figure(
            name="workspace", said=0, found=space, unit="bytes", formula="b*C*R*R*H*H*e",
            symbols=tuple((k, symbols[k]) for k in "bCRHe"), reference="cudnn_convolutions",
        ),
    )  # fmt: skip
    return Claim(id="g28", outcome=Outcome.WRONG, figures=figures)


def g29(tables: Tables) -> Claim:
    """What empty_cache gives back between steps: the cache's free blocks; context and live tensors stay."""
    made = planned(full_training(LLAMA_2_7B, checkpointing="full"), tables)
    ledger = made.worst.ledger
    rest, (_, reserved) = ledger.by_category(Phase.REST), ledger.peak(Layer.RESERVED)
    live = sum(rest.get(kind, 0) for kind in Category if kind not in {Category.CONTEXT, Category.ALLOCATOR})
    figures = (
        Figure(name="context_stays", said=0, found=rest.get(Category.CONTEXT, 0), unit="bytes"),
        Figure(name="live_stays", said=None, found=live, unit="bytes"),
        Figure(name="goes_back", said=None, found=reserved - live, unit="bytes"),
    )
    return Claim(id="g29", outcome=Outcome.WRONG, figures=figures)


def g30(_tables: Tables) -> Claim:
    """Two segments of four tensors of 8 MiB, two a segment; three are freed. What is inactive, what can go back."""
    free = SEGMENT - PIECE
    symbols = {"S": SEGMENT, "x": PIECE}
    figures = (
        worked("cached_and_free", None, "bytes", "S + (S - x)", symbols, SEGMENT + free),
        worked("inactive_split", SEGMENT + free, "bytes", "S - x", symbols, free),
        worked("goes_back", 0, "bytes", "S", {"S": SEGMENT}, SEGMENT),
    )
    return Claim(id="g30", outcome=Outcome.WRONG, figures=figures)
