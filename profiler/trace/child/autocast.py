"""CUDA's autocast on a CPU build: PyTorch's own machinery for the CPU, with CUDA's list of operators.

Products are cast to the lower format on both, with the cache of cast weights that PyTorch keeps. What CUDA casts
to fp32 and the CPU leaves alone is registered here for the CPU's autocast key, for as long as `cuda_lists` is in
force. Source: the `AT_FORALL_...` lists in `aten/src/ATen/autocast_mode.h`, PyTorch 2.13.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import library as operators
from torch.utils._pytree import tree_iter, tree_map

KEY: Final = "AutocastCPU"

TO_FP32: Final = tuple(
    """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
    pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim
    nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d
    hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
    multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
    binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d
    _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
    _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d
    upsample_bicubic2d _upsample_bicubic2d_aa
    """.split()  # noqa: SIM905  # a table of words
)
"""Cast every floating input to fp32 (`AT_FORALL_FP32`)."""

RESULT_IN_FP32: Final = (
    *("prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "linalg_vector_norm"),
    *("linalg_matrix_norm", "linalg_matrix_norm.str_ord", "sum", "sum.dim_IntList"),
)
"""Compute in fp32 unless a format is asked for (`AT_FORALL_FP32_SET_OPT_DTYPE`)."""

TO_LOWER: Final = (
    *("_convolution", "convolution", "addmv", "addr", "einsum", "mv", "chain_matmul", "linalg_multi_dot"),
    *("_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "lstm_cell", "gru_cell", "rnn_tanh_cell"),
    *("rnn_relu_cell", "_scaled_dot_product_flash_attention"),
)
"""Products that CUDA's list has and the CPU's has not (`AT_FORALL_LOWER_PRECISION_FP`)."""

WIDEST: Final = (
    *("addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "index_put", "tensordot"),
    "scatter_add",
)
"""Cast to the widest format among the inputs, beyond what the CPU's list has (`AT_FORALL_PROMOTE`)."""

LOWER: Final = frozenset({torch.float16, torch.bfloat16})


@contextmanager
def cuda_lists() -> Iterator[None]:
    """Register CUDA's list for the CPU's autocast key, and take it back afterwards."""
    library = operators.Library("aten", "IMPL")  # taken back below
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that kernels of the CPU's own list are overridden is meant
        for name in TO_FP32:
            library.impl(name, _in_fp32(_operator(name)), KEY)
        for name in TO_LOWER:
            library.impl(name, _in_lower(_operator(name)), KEY)
        for name in WIDEST:
            library.impl(name, _in_widest(_operator(name)), KEY)
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


def _in_lower(operator: Any) -> Callable[..., Any]:
    """The cast weights are not kept between calls, as those of the CPU's own list are."""

    def lower(value: Any) -> Any:
        is_wide = isinstance(value, torch.Tensor) and value.dtype is torch.float32
        return value.to(torch.get_autocast_dtype("cpu")) if is_wide else value

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with without_autocast():
            return operator(*tree_map(lower, args), **tree_map(lower, kwargs))

    return kernel


def _in_widest(operator: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        given = tree_iter((args, kwargs))
        wide = any(isinstance(one, torch.Tensor) and one.dtype is torch.float32 for one in given)
        with without_autocast():
            if not wide:
                return operator(*args, **kwargs)
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
