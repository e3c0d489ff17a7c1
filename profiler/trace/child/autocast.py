"""CUDA's autocast on a CPU build: PyTorch's own machinery for the CPU, with CUDA's list of operators.

Products are cast to the lower format on both, with the cache of cast weights that PyTorch keeps. What CUDA casts
to fp32 and the CPU leaves alone is registered here for the CPU's autocast key, for as long as `cuda_lists` is in
force. Source: `AT_FORALL_FP32` and `AT_FORALL_FP32_SET_OPT_DTYPE` in `aten/src/ATen/autocast_mode.h`, PyTorch
2.13.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch.utils._pytree import tree_map

KEY: Final = "AutocastCPU"

TO_FP32: Final = (
    *(
        "acos",
        "asin",
        "cosh",
        "erfinv",
        "exp",
        "expm1",
        "log",
        "log10",
        "log2",
        "log1p",
        "reciprocal",
        "rsqrt",
    ),
    *("sinh", "tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm"),
    *("native_layer_norm", "group_norm", "cosine_similarity", "nll_loss", "nll_loss2d", "kl_div", "l1_loss"),
    *("smooth_l1_loss", "huber_loss", "mse_loss", "binary_cross_entropy_with_logits", "dist", "logsumexp"),
)
"""Cast every floating input to fp32."""

RESULT_IN_FP32: Final = (
    *("prod", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "sum", "sum.dim_IntList"),
    *("linalg_vector_norm", "linalg_matrix_norm"),
)
"""Compute in fp32 unless a format is asked for."""

LOWER: Final = frozenset({torch.float16, torch.bfloat16})


@contextmanager
def cuda_lists() -> Iterator[None]:
    """Register CUDA's list for the CPU's autocast key, and take it back afterwards."""
    library = torch.library.Library("aten", "IMPL")  # taken back below
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that kernels of the CPU's own list are overridden is meant
        for name in TO_FP32:
            library.impl(name, _in_fp32(_operator(name)), KEY)
        for name in RESULT_IN_FP32:
            library.impl(name, _result_in_fp32(_operator(name)), KEY)
    try:
        yield
    finally:
        library._destroy()  # noqa: SLF001  # it has no public name


def _operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def without_autocast() -> Any:
    """A context in which operators are not cast, as within those that have been."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)  # noqa: SLF001
    return torch._C._ExcludeDispatchKeyGuard(keys)  # noqa: SLF001


def _raise(value: Any) -> Any:
    is_lower = isinstance(value, torch.Tensor) and value.dtype in LOWER
    return value.to(torch.float32) if is_lower else value


def _in_fp32(operator: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with without_autocast():
            return operator(*tree_map(_raise, args), **tree_map(_raise, kwargs))

    return kernel


def _result_in_fp32(operator: Any) -> Callable[..., Any]:
    place = [argument.name for argument in operator._schema.arguments].index("dtype")  # noqa: SLF001

    def kernel(*args: Any, **kwargs: Any) -> Any:
        asked = args[place] if len(args) > place else kwargs.get("dtype")
        if asked is None and args[0].dtype in LOWER:
            args, kwargs = args[:place], kwargs | {"dtype": torch.float32}
        with without_autocast():
            return operator(*args, **kwargs)

    return kernel
