"""Where pictures meet the text, transformers looks at values: how many tokens are a picture's, and which.

Shape-only tensors have none. Stand-ins do the same with the number that the batch was made with.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Final

import torch

CHECKS: Final = "TRANSFORMERS_DISABLE_TORCH_CHECK"
"""`torch_compilable_check` compares numbers of tokens, unless this is set."""

DEEPSTACK: Final = "_deepstack_process"


@contextmanager
def pictures_by_shape(model_type: str) -> Iterator[None]:
    """Put the stand-ins in place, and the originals back afterwards.

    Args:
        model_type: The class whose own steps on values are replaced, if it has any.
    """
    with ExitStack() as stack:

        def replace(owner: Any, name: str, value: Any) -> None:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

        before = os.environ.get(CHECKS)
        stack.callback(_restore, before)
        os.environ[CHECKS] = "1"
        replace(torch.Tensor, "masked_scatter", _scattered)
        replace(torch, "as_tensor", _with_values(torch.as_tensor))
        for owner in _owners_of(DEEPSTACK, model_type):
            replace(owner, DEEPSTACK, _added)
        yield


def _owners_of(method: str, model_type: str) -> list[Any]:
    """Classes of a model type with a method of that name."""
    try:
        module = import_module(f"transformers.models.{model_type}.modeling_{model_type}")
    except ImportError:
        return []
    return [one for one in vars(module).values() if isinstance(one, type) and method in vars(one)]


def _restore(before: str | None) -> None:
    if before is None:
        os.environ.pop(CHECKS, None)
    else:
        os.environ[CHECKS] = before


def _with_values(original: Callable[..., Any]) -> Callable[..., Any]:
    """Numbers given as a list keep their values, on the host."""

    def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
        by_shape = isinstance(data, list) and torch.device(device or "cpu").type == "meta"
        return original(data, dtype=dtype, device=None if by_shape else device)

    return as_tensor


def _added(_: Any, hidden: Any, mask: Any, features: Any) -> Any:
    return _Add.apply(hidden, mask, features.to(hidden.dtype))


class _Add(torch.autograd.Function):  # type: ignore[misc]  # torch is not followed by the type checker
    """Features of pictures added where their tokens are (`Qwen3VLTextModel._deepstack_process`).

    Both the reading and the writing by a mask keep the places that they found, two 64-bit numbers each.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Any, mask: Any, features: Any) -> Any:
        """A copy of the stream, with the sums in it."""
        del mask
        ctx.shape = features.shape
        places = [torch.empty((2, len(features)), dtype=torch.int64, device=hidden.device) for _ in range(2)]
        ctx.save_for_backward(*places)
        read = features.new_empty(features.shape)
        total = read + features
        del read, total
        return torch.empty_like(hidden)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        """Of the stream: what is not written over, and what was read; of the features: their places'."""
        of_features = gradient.new_empty(ctx.shape)
        of_stream = gradient.clone()
        spread = torch.zeros_like(gradient)
        of_stream = of_stream + spread
        return of_stream, None, of_features if ctx.needs_input_grad[2] else None


def _scattered(into: Any, mask: Any, source: Any) -> Any:
    return _Scatter.apply(into, mask, source)


class _Scatter(torch.autograd.Function):  # type: ignore[misc]  # torch is not followed by the type checker
    """`masked_scatter`, whose gradient of the source has as many elements as the mask has ones.

    Source: `masked_scatter_backward` in PyTorch's `FunctionsManual.cpp`, and on CUDA `masked_scatter_cuda` (an fp64
    wide prefix sum of the mask) and `masked_select`, which finds the places first (`nonzero`, three 64-bit numbers
    each).
    """

    @staticmethod
    def forward(ctx: Any, into: Any, mask: Any, source: Any) -> Any:
        """The text's embeddings with the pictures' in place."""
        ctx.save_for_backward(mask)
        ctx.source_shape = source.shape
        whole = mask.expand_as(into)
        sums = torch.empty(whole.shape, dtype=torch.int64, device=into.device)
        ones = whole.contiguous()
        del sums, ones
        return torch.empty_like(into)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        """Gradients of both, as far as they are wanted."""
        (mask,) = ctx.saved_tensors
        of_text = gradient.masked_fill(mask, 0) if ctx.needs_input_grad[0] else None
        of_pictures = None
        if ctx.needs_input_grad[2]:
            ones = mask.expand_as(gradient).contiguous()
            count = torch.Size(ctx.source_shape).numel()
            places = torch.empty((3, count), dtype=torch.int64, device=gradient.device)
            of_pictures = gradient.new_empty(ctx.source_shape)
            del ones, places
        return of_text, None, of_pictures
