"""Where PyTorch does one thing on CUDA and another on shape-only tensors, the former is put in place.

Each stand-in says what differs and where PyTorch decides it. They are in force only inside `in_force`.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils import _foreach_utils
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import masking_utils

from profiler.trace.child.attention import attention_for
from profiler.trace.child.norms import rms_norm_for_cuda
from profiler.trace.documents import Target
from profiler.worker import losses

Devices = Callable[[], list[str]]
PACKED = "find_packed_sequence_indices"


@contextmanager
def in_force(target: Target, device_type: str, *, packed: bool = False) -> Iterator[None]:
    """Put the stand-ins in place, and the originals back afterwards.

    Args:
        target: The device whose step is followed.
        device_type: Where the tensors that stand for it are.
        packed: Rows hold several documents.
    """
    functional = torch.nn.functional
    with ExitStack() as stack:

        def replace(owner: Any, name: str, value: Any) -> None:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

        by_lengths = packed and target.attention == "flash"
        replace(functional, "scaled_dot_product_attention", attention_for(target, by_lengths=by_lengths))
        find = getattr(masking_utils, PACKED)
        replace(masking_utils, PACKED, _answering(find, not packed or by_lengths))
        if target.attention == "flash":
            _no_masks(stack)
        replace(torch.amp.GradScaler, "_maybe_opt_step", _always_step)
        replace(masking_utils, "is_tracing", lambda _=None: False)
        replace(_foreach_utils, "_get_fused_kernels_supported_devices", _also("fused", device_type))
        if target.device == "cuda":
            replace(_foreach_utils, "_get_foreach_kernels_supported_devices", _also("foreach", device_type))
            replace(losses, "accumulate", _accumulate)
            replace(functional, "dropout", _dropout(functional.dropout))
            replace(functional, "rms_norm", rms_norm_for_cuda(functional.rms_norm))
            replace(functional, "softmax", _softmax(functional.softmax))
        for module in _users_of_supported_devices():
            for name in ("_get_fused_kernels_supported_devices", "_get_foreach_kernels_supported_devices"):
                if hasattr(module, name):
                    replace(module, name, getattr(_foreach_utils, name))
        yield


def _no_masks(stack: ExitStack) -> None:
    """The flash library is told causality and windows by arguments; sdpa, which stands for it, would get a mask."""
    makers = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS._global_mapping  # noqa: SLF001  # it has no public name
    stack.callback(makers.__setitem__, "sdpa", makers["sdpa"])
    makers["sdpa"] = masking_utils.flash_attention_mask


def _users_of_supported_devices() -> list[Any]:
    """Modules of optimizers, which import the lists by name."""
    return [module for name, module in sys.modules.items() if name.startswith("torch.optim.")]


def _also(kind: str, device_type: str) -> Devices:
    """Optimizers ask which devices have kernels (`torch/utils/_foreach_utils.py`); ours is one of them."""
    original: Devices = getattr(_foreach_utils, f"_get_{kind}_kernels_supported_devices")
    return lambda: [*original(), device_type]


def _dropout(original: Callable[..., Any]) -> Callable[..., Any]:
    """On CUDA dropout is one operator that keeps a mask of one byte an element (`Dropout.cpp`)."""

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:  # noqa: A002
        if training and 0 < p < 1 and not inplace:
            return torch.native_dropout(input, p, train=True)[0]
        return original(input, p, training, inplace)

    return dropout


def _softmax(original: Callable[..., Any]) -> Callable[..., Any]:
    """On CUDA a softmax from half to fp32 makes no fp32 copy of its input (`SoftMax.cpp`)."""

    def softmax(input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Any:  # noqa: A002
        if input.dtype is torch.float16 and dtype is torch.float32:
            return torch._softmax(input, dim, half_to_float=True)  # noqa: SLF001  # an operator's name
        return original(input, dim, _stacklevel, dtype)

    return softmax


def _accumulate(total: Any, gradient: Any, hidden: Any) -> None:
    """CUDA adds a product of 16-bit factors to an fp32 sum in one kernel (`addmm` with `out_dtype`)."""
    factor = hidden.to(gradient.dtype)
    if total.dtype == gradient.dtype:
        total.addmm_(gradient.t(), factor)


def _always_step(_: Any, optimizer: Any, __: Any, *args: Any, **kwargs: Any) -> Any:
    """A scaler leaves out a step whose gradients are not finite; shape-only ones are."""
    return optimizer.step(*args, **kwargs)


class _Answers(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed by the type checker
    """Answers a question about values, which shape-only tensors don't have.

    Args:
        answer: Whether what is asked holds.
    """

    def __init__(self, answer: bool) -> None:
        super().__init__()
        self._answer = answer

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator."""
        if func is torch.ops.aten._local_scalar_dense.default:  # noqa: SLF001  # an operator's name
            return self._answer
        return func(*args, **(kwargs or {}))


def _answering(original: Callable[..., Any], plain: bool) -> Callable[..., Any]:
    """Transformers asks whether every row is one document; the batch was made so, or it was not."""

    def find(position_ids: Any) -> Any:
        with _Answers(plain):
            return original(position_ids)

    return find
