"""What the runtime adds: library workspaces, the CUDA context, communication libraries, the allocator's cache."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from planner.hardware import Gpu, Tables, cuda_context_bytes
from planner.units import KIB, MIB

WORKSPACE_THREADS: Final = 2
"""cuBLAS handles: one of the forward thread, one of autograd's."""

CONTEXT_FALLBACK: Final = 480 * MIB
"""Where the tables hold no constant: PyTorch 2.1 on an A100 with lazy loading (0.47 GiB)."""

MODULES_FALLBACK: Final = 380 * MIB
"""Where the tables hold no constant: the same as theirs."""

NCCL_BYTES: Final = 512 * MIB
"""A communicator's buffers, about half a GiB each; the number of communicators is that of the parallel dimensions."""

SLACK_DEFAULT: Final = 0.07
SLACK_EXPANDABLE: Final = 0.02
"""Median of reserved / allocated - 1 over 12 traced runs replayed through the allocator's rules."""

SLACK_RETAINED: Final = 0.35
SLACK_LOADED: Final = 0.4
SLACK_SHARED: Final = 0.6
"""Where the tables hold no constant: the same as theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackFracs:
    """Shares of what the allocator holds on top.

    Attributes:
        rounding: Of the fullest moment, whatever the order of sizes: blocks are rounded and segments end.
        least: Of the fullest moment, what stays in pieces on a full card.
        keeps_sets: Whether blocks cut for one set of tensors stay its own (not with expandable segments).
        retained: Of the gradients FSDP retains, which split the blocks they are cut from.
        loaded: Of what was loaded whole before it was divided.
        shared: Of the smaller of logits and the optimizer's tensors, which is cut from the blocks of the larger.
    """

    rounding: float
    least: float
    keeps_sets: bool
    retained: float
    loaded: float
    shared: float


def cublas_workspace_bytes(gpu: Gpu) -> int:
    """One workspace: `:4096:2:16:8` (8.125 MiB); 32 MiB on server cards from Hopper on. PyTorch `CUDABlas.cpp`."""
    capability = gpu.compute_capability
    if capability is not None and (9, 0) <= capability < (12, 0):
        return 32 * MIB
    return (2 * 4096 + 8 * 16) * KIB


def te_workspace_bytes(gpu: Gpu) -> int:
    """Transformer Engine's own cuBLASLt workspace: 32 MiB from Hopper on, 4 MiB before."""
    newer = gpu.compute_capability is None or gpu.compute_capability >= (9, 0)
    return (32 if newer else 4) * MIB


def context_bytes(gpu: Gpu, tables: Tables) -> int:
    """The CUDA context of this card's generation; 0 where the card has none."""
    try:
        return cuda_context_bytes(gpu, tables) or 0
    except LookupError:
        return CONTEXT_FALLBACK


def modules_bytes(tables: Tables) -> int:
    """Kernels that a training step loads after the context is there (cuBLAS, flash attention, Triton, bitsandbytes)."""
    own = tables.constants.get("training_modules_bytes")
    return int(own.value) if own else MODULES_FALLBACK


def nccl_bytes(communicators: int, tables: Tables) -> int:
    """Communicator buffers outside PyTorch's allocator."""
    own = tables.constants.get("nccl_communicator_bytes")
    return communicators * int(own.value if own else NCCL_BYTES)


@lru_cache(maxsize=16)
def slack_fracs(allocator: str | None, tables: Tables) -> SlackFracs:
    """What the caching allocator holds on top; expandable segments grow and shrink in place and have the least only."""
    expandable = allocator == "expandable_segments"
    rounding = _constant("allocator_slack_expandable_frac", SLACK_EXPANDABLE, tables)
    pieces = _constant("allocator_slack_default_frac", SLACK_DEFAULT, tables)
    return SlackFracs(
        rounding=rounding,
        least=rounding if expandable else pieces,
        keeps_sets=not expandable,
        retained=_constant("allocator_retained_frac", SLACK_RETAINED, tables),
        loaded=_constant("allocator_loaded_frac", SLACK_LOADED, tables),
        shared=_constant("allocator_shared_frac", SLACK_SHARED, tables),
    )


def _constant(name: str, fallback: float, tables: Tables) -> float:
    own = tables.constants.get(name)
    return own.value if own else fallback
