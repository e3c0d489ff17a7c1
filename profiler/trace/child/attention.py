"""Scaled dot product attention on shape-only tensors, by the kernel that the target would take.

A CPU build of PyTorch always decides for the CPU, so the choice is made here and the chosen operator is called
directly, with what `scaled_dot_product_attention` in `aten/src/ATen/native/transformers/attention.cpp` does
around it (masks, padding of heads).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import pad

from profiler.trace.attention_rules import AttentionCall, choose
from profiler.trace.child.autocast import LOWER, without_autocast
from profiler.trace.documents import Target
from profiler.worker.packing import DOCUMENTS

Attend = Callable[..., Any]
MASK_STEP = 16
HEAD_STEP = 8


def attention_for(target: Target, *, by_lengths: bool = False) -> Attend:
    """A stand-in for `torch.nn.functional.scaled_dot_product_attention`.

    Args:
        target: The device whose step is followed.
        by_lengths: Rows hold several documents, which the flash kernel is told by cumulative lengths.
    """

    def attend(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,  # PyTorch's signature
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        query, key, value, attn_mask = _cast(query, key, value, attn_mask)
        call = _describe(query, key, value, attn_mask, dropout_p, causal=is_causal, grouped=enable_gqa)
        backend = choose(call, target)
        with without_autocast():
            if backend == "math" and target.device == "cpu":
                return torch.ops.aten._scaled_dot_product_attention_math(  # noqa: SLF001  # an operator's name
                    query,
                    key,
                    value,
                    attn_mask,
                    dropout_p,
                    is_causal,
                    None,
                    scale=scale,
                    enable_gqa=enable_gqa,
                )[0]
            given = (query, key, value, _as_bias(attn_mask, query.dtype), dropout_p, is_causal, scale)
            if target.device == "cpu":
                return _cpu(*given)
            if backend == "math":
                return _math(*given, grouped=enable_gqa)
            if backend == "flash" and by_lengths:
                return _flash_by_lengths(*given)
            return {"flash": _flash, "efficient": _efficient, "cudnn": _cudnn}[backend](*given)

    return attend


def _cast(*tensors: Any) -> tuple[Any, ...]:
    """Attention is one of the operators that autocast lowers, masks included."""
    if not torch.is_autocast_enabled("cpu"):
        return tensors
    dtype = torch.get_autocast_dtype("cpu")
    return tuple(x if x is None or not x.is_floating_point() else x.to(dtype) for x in tensors)


def _describe(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, *, causal: bool, grouped: bool
) -> AttentionCall:
    return AttentionCall(
        heads=query.shape[-3],
        key_heads=key.shape[-3],
        queries=query.shape[-2],
        keys=key.shape[-2],
        head_dim=query.shape[-1],
        value_dim=value.shape[-1],
        dtype=str(query.dtype).removeprefix("torch."),
        has_mask=mask is not None,
        mask_needs_grad=mask is not None and mask.requires_grad,
        dropout=dropout,
        causal=causal,
        grouped=grouped,
        needs_grad=_needs_grad(query, key, value),
        rows_are_dense=all(tensor.stride(-1) == 1 for tensor in (query, key, value)),
    )


def _needs_grad(*tensors: Any) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _as_bias(mask: Any, dtype: Any) -> Any:
    """A mask of true and false as numbers to be added (`convert_boolean_attn_mask`)."""
    if mask is None or mask.dtype is not torch.bool:
        return mask
    zero = torch.zeros((), dtype=dtype, device=mask.device)
    return torch.where(mask.logical_not(), float("-inf"), zero)


def _cpu(query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: Any) -> Any:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(  # noqa: SLF001
        query, key, value, dropout, causal, attn_mask=mask, scale=scale
    )[0]


def _flash(query: Any, key: Any, value: Any, _: Any, dropout: float, causal: bool, scale: Any) -> Any:
    """Heads are padded to a multiple of 8, and the scale stays that of the true size."""
    size = query.shape[-1]
    missing = -size % HEAD_STEP
    if missing:
        query, key, value = (pad(tensor, (0, missing)) for tensor in (query, key, value))
    out = torch.ops.aten._scaled_dot_product_flash_attention(  # noqa: SLF001
        query, key, value, dropout, causal, False, scale=size**-0.5 if scale is None else scale
    )[0]
    return out[..., :size] if missing else out


def _flash_by_lengths(
    query: Any, key: Any, value: Any, _: Any, dropout: float, causal: bool, scale: Any
) -> Any:
    """All rows' documents one after the other, as `_flash_attention_forward` in transformers calls the kernel."""
    rows, _, tokens, size = query.shape
    flat = [
        tensor.transpose(1, 2).reshape(rows * tokens, tensor.shape[1], size) for tensor in (query, key, value)
    ]
    starts = torch.empty(rows * DOCUMENTS + 1, dtype=torch.int32, device=query.device)
    longest = -(-tokens // DOCUMENTS)
    out = torch.ops.aten._flash_attention_forward(  # noqa: SLF001
        *flat, starts, starts, longest, longest, dropout, causal, False, scale=scale
    )[0]
    return out.view(rows, tokens, -1, size).transpose(1, 2)


def _efficient(query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: Any) -> Any:
    """The mask's rows are padded to a multiple of 16 (`preprocess_mask`)."""
    if mask is not None:
        size = mask.shape[-1]
        if size % MASK_STEP:
            mask = pad(mask, (0, -size % MASK_STEP))[..., :size]
        mask = mask.expand(*query.shape[:-1], key.shape[-2])
    return torch.ops.aten._scaled_dot_product_efficient_attention(  # noqa: SLF001
        query, key, value, mask, _needs_grad(query, key, value), dropout, causal, scale=scale
    )[0]


def _cudnn(query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: Any) -> Any:
    keep = _needs_grad(query, key, value)
    return torch.ops.aten._scaled_dot_product_cudnn_attention(  # noqa: SLF001
        query, key, value, mask, keep, dropout, causal, False, scale=scale
    )[0]


def _math(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool, scale: Any, *, grouped: bool
) -> Any:
    """Scores written out, in fp32 for 16-bit formats (`_scaled_dot_product_attention_math`).

    PyTorch's own does the same, but adds the mask out of place while operators are followed, and its dropout
    keeps a mask in the scores' format where there is no CUDA.
    """
    dtype = query.dtype
    if dtype in LOWER:
        query, key, value = (tensor.to(torch.float32) for tensor in (query, key, value))
    factor = (query.shape[-1] ** -0.5 if scale is None else scale) ** 0.5
    query = query * factor
    if causal:
        square = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device)
        mask = _as_bias(square.tril(), query.dtype)
    if grouped and query.shape[-3] != key.shape[-3]:
        copies = query.shape[-3] // key.shape[-3]
        key, value = (tensor.repeat_interleave(copies, -3) for tensor in (key, value))
    scores = torch.matmul(query, key.transpose(-2, -1) * factor)
    if mask is not None:
        scores.add_(mask)
    weights = torch.ops.aten._safe_softmax(scores, -1)  # noqa: SLF001
    if dropout > 0:
        weights = torch.nn.functional.dropout(weights, dropout)
    return torch.matmul(weights, value).to(dtype)
