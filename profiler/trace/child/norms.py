"""`rms_norm` as CUDA has it: one kernel that keeps its input and a number a row.

A CPU build composes it from single operators and keeps what those keep. Source: `rms_norm_symint` in
`aten/src/ATen/native/layer_norm.cpp` and `_fused_rms_norm_cuda` in `native/cuda/layer_norm_kernel.cu`, PyTorch 2.13.
Transformers' own norms are written in Python and stay as they are.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from profiler.trace.child.autocast import LOWER

WIDE = torch.float32
Norm = Callable[..., Any]


def rms_norm_for_cuda(original: Norm) -> Norm:
    """A stand-in for `torch.nn.functional.rms_norm`.

    Args:
        original: PyTorch's own, taken where CUDA composes it as well: weights of another format than the input.
    """

    def rms_norm(
        input: Any,  # noqa: A002  # PyTorch's signature
        normalized_shape: Sequence[int],
        weight: Any = None,
        eps: float | None = None,
    ) -> Any:
        if torch.is_autocast_enabled("cpu"):
            input, weight = _raised(input), _raised(weight)  # noqa: A001
        if weight is not None and weight.dtype != input.dtype:
            return original(input, normalized_shape, weight, eps)
        return _Fused.apply(input, weight, len(normalized_shape))

    return rms_norm


def _raised(tensor: Any) -> Any:
    return tensor.to(WIDE) if tensor is not None and tensor.dtype in LOWER else tensor


class _Fused(torch.autograd.Function):  # type: ignore[misc]  # torch is not followed by the type checker
    """Allocates what the kernels allocate."""

    @staticmethod
    def forward(ctx: Any, input: Any, weight: Any, dims: int) -> Any:  # noqa: A002
        """The normed rows."""
        rows = (*input.shape[:-dims], *(1,) * dims)
        ctx.save_for_backward(input, weight, torch.empty(rows, dtype=WIDE, device=input.device))
        return torch.empty_like(input, memory_format=torch.contiguous_format)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        """Gradients of the input and of the weight."""
        input, weight, _ = ctx.saved_tensors  # noqa: A001
        gradient = gradient.contiguous()
        of_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        return torch.empty_like(input), of_weight, None
