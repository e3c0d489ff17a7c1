"""What the runtime adds: library workspaces, the CUDA context, communication libraries, the allocator's cache."""

from typing import Final

from planner.hardware import Gpu, Tables, cuda_context_bytes
from planner.units import KIB, MIB

WORKSPACE_THREADS: Final = 2
"""cuBLAS handles: one of the forward thread, one of autograd's."""

CONTEXT_FALLBACK: Final = 480 * MIB
"""Where the tables hold no constant: PyTorch 2.1 on an A100 with lazy loading (0.47 GiB)."""

NCCL_BYTES: Final = 512 * MIB
"""A communicator's buffers, about half a GiB each; the number of communicators is that of the parallel dimensions."""

SLACK_DEFAULT: Final = 0.07
SLACK_EXPANDABLE: Final = 0.02
"""Median of reserved / allocated - 1 over 12 traced runs replayed through the allocator's rules."""

SLACK_MOVING: Final = 0.3
"""Where the tables hold no constant: the same as theirs."""


def cublas_workspace_bytes(gpu: Gpu) -> int:
    """One workspace: `:4096:2:16:8` (8.125 MiB), 32 MiB on Hopper and later. PyTorch `CUDABlas.cpp`."""
    if (
        gpu.compute_capability is not None
        and gpu.compute_capability >= (9, 0)
        and gpu.compute_capability < (12, 0)
    ):
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


def nccl_bytes(communicators: int, tables: Tables) -> int:
    """Communicator buffers outside PyTorch's allocator."""
    own = tables.constants.get("nccl_communicator_bytes")
    return communicators * int(own.value if own else NCCL_BYTES)


def slack_fracs(allocator: str | None, tables: Tables) -> tuple[float, float]:
    """What the caching allocator holds on top: shares of the fullest moment, and of what comes and goes in a step.

    Blocks are cut for tensors of one length and freed again; the next, longer or shorter, find no fit, and blocks of
    FSDP's own streams wait for each other. Expandable segments grow and shrink in place and have the first share only.
    """
    if allocator == "expandable_segments":
        return _constant("allocator_slack_expandable_frac", SLACK_EXPANDABLE, tables), 0.0
    default = _constant("allocator_slack_default_frac", SLACK_DEFAULT, tables)
    return default, _constant("allocator_slack_moving_frac", SLACK_MOVING, tables)


def _constant(name: str, fallback: float, tables: Tables) -> float:
    own = tables.constants.get(name)
    return own.value if own else fallback
