"""Memory that CUDA kernels and libraries take inside one operator, where no dispatcher sees it. No PyTorch here.

Each has a name, a size and a source; `estimate` marks what is not read from a source but worked out.
"""

from dataclasses import dataclass
from typing import Final

from planner.units import KIB, MIB, round_up
from profiler.trace.attention_rules import Capability

WORKSPACE: Final = "workspace"
"""Kind of a storage that a kernel takes for itself; its detail is the workspace's name."""

FP32: Final = 4
INDEX: Final = 8
SORT_FROM: Final = 3072
"""Indices up to which the embedding's backward pass needs no sorting (`embedding_backward_cuda_kernel`)."""

BLOCK: Final = 128
_ATEN: Final = "pytorch/aten/src/ATen/"


@dataclass(frozen=True, slots=True)
class Workspace:
    """Memory inside an operator.

    Attributes:
        name: Stable id.
        bytes: Sizes of its pieces.
        source: File and function that allocates it.
        estimate: Worked out rather than read.
    """

    name: str
    bytes: tuple[int, ...]
    source: str
    estimate: bool = False


def cublas(capability: Capability) -> Workspace:
    """Kept by each cuBLAS handle from its first product on: one of the forward thread, one of autograd's.

    cuBLASLt takes none of its own: `getCUDABlasLtWorkspace` hands out the same one
    (`TORCH_CUBLASLT_UNIFIED_WORKSPACE` is on by default in PyTorch 2.13).
    """
    hopper_or_later = (9, 0) <= capability < (12, 0)
    size = 32 * MIB if hopper_or_later else (2 * 4096 + 8 * 16) * KIB
    return Workspace("cublas_workspace", (size,), f"{_ATEN}cuda/CublasHandlePool.cpp: getChosenWorkspaceSize")


def cublaslt() -> Workspace:
    """Products with a bias go by cuBLASLt, which works in the handle's own workspace and takes nothing more."""
    return Workspace(
        "cublaslt_workspace", (), f"{_ATEN}cuda/CublasHandlePool.cpp: getCUDABlasLtWorkspace (unified)"
    )


def flash_backward(query: tuple[int, ...], keys: int, key_heads: int, item_bytes: int) -> Workspace:
    """Row sums, the fp32 gradient of the queries, and full-head gradients where keys are grouped.

    Args:
        query: Shape of the queries: batch, heads, positions, head size.
        keys: Key positions.
        key_heads: Key and value heads.
        item_bytes: Of the format.
    """
    batch, heads, positions, size = query
    rows = round_up(positions, BLOCK)
    pieces = [FP32 * batch * heads * rows, FP32 * batch * rows * heads * _rounded_head(size)]
    if key_heads != heads:
        pieces += [item_bytes * batch * keys * heads * size] * 2
    return Workspace(
        "flash_backward_workspace",
        tuple(pieces),
        f"{_ATEN}native/transformers/cuda/flash_attn/flash_api.cpp: mha_bwd",
    )


def flash_backward_by_lengths(
    tokens: int, heads: int, size: int, documents: int, key_heads: int, item_bytes: int
) -> Workspace:
    """The same for documents laid end to end: room for one block more a document.

    Args:
        tokens: Of all documents.
        heads: Query heads.
        size: Of a head.
        documents: How many.
        key_heads: Key and value heads.
        item_bytes: Of the format.
    """
    rows = tokens + BLOCK * documents
    pieces = [FP32 * heads * rows, FP32 * rows * heads * _rounded_head(size)]
    if key_heads != heads:
        pieces += [item_bytes * tokens * heads * size] * 2
    return Workspace(
        "flash_backward_workspace",
        tuple(pieces),
        f"{_ATEN}native/transformers/cuda/flash_attn/flash_api.cpp: mha_varlen_bwd",
    )


def _rounded_head(size: int) -> int:
    """Head sizes that the kernel is compiled for (`round_multiple(head_size, head_size <= 128 ? 32 : 64)`)."""
    return round_up(size, 32 if size <= BLOCK else 64)


def efficient_backward(query: tuple[int, ...], *, half: bool) -> Workspace:
    """Row products, and the fp32 gradient of the queries for 16-bit formats."""
    batch, heads, positions, size = query
    pieces = [FP32 * batch * heads * positions]
    if half:
        pieces.append(FP32 * batch * heads * round_up(positions, BLOCK) * round_up(size, 64))
    return Workspace(
        "efficient_backward_workspace",
        tuple(pieces),
        f"{_ATEN}native/transformers/cuda/attention_backward.cu: workspace of the kernel",
        estimate=True,
    )


def cudnn_backward(query: tuple[int, ...]) -> Workspace:
    """The fp32 gradient of the queries and row sums; what cuDNN really asks for is not published."""
    batch, heads, positions, size = query
    pieces = (FP32 * batch * heads * positions * size, FP32 * batch * heads * positions)
    return Workspace(
        "cudnn_backward_workspace", pieces, f"{_ATEN}native/cudnn/MHA.cpp: get_workspace_size", estimate=True
    )


def embedding_backward(indices: int) -> Workspace:
    """Sorted indices and their places; nothing for few indices."""
    pieces = (INDEX * indices,) * 3 if indices > SORT_FROM else ()
    return Workspace(
        "embedding_backward_workspace",
        pieces,
        f"{_ATEN}native/cuda/Embedding.cu: embedding_dense_backward_cuda",
        estimate=True,
    )


def safe_softmax(scores: int, item_bytes: int) -> Workspace:
    """The plain softmax and what marks rows of minus infinity, beside the result.

    Args:
        scores: Number of scores.
        item_bytes: Of their format.
    """
    return Workspace(
        "safe_softmax_temporaries",
        (scores * item_bytes, scores),
        f"{_ATEN}native/transformers/attention.cpp: _safe_softmax",
    )
