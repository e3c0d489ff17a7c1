"""Records a whole run on shape-only tensors: as the tracker, with kernels' own workspaces and nothing forgotten."""

from collections.abc import Callable
from typing import Any, Final

import torch

from profiler.trace import workspaces
from profiler.trace.documents import Target
from profiler.trace.record import Change
from profiler.trace.workspaces import WORKSPACE, Workspace
from profiler.worker.storages import Storage
from profiler.worker.tracker import Tracker

PRODUCTS: Final = frozenset(
    {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm", "aten::addmv", "aten::mv"}
)
WITH_BIAS: Final = "aten::addmm"
GROUPED: Final = "aten::_grouped_mm"
LAYER_NORM: Final = "aten::native_layer_norm"
VALUE: Final = "aten::_local_scalar_dense"
"""A single number is read. In an optimizer it scales the step and decides nothing about sizes."""

LOAD: Final = "load"
OPTIMIZER_STEP: Final = "optimizer_step"
ROW_BYTES: Final = 16
"""Rows of a grouped product's result begin at multiples of this on CUDA (`create_grouped_gemm_output_tensor`)."""


class Recorder(Tracker):
    """Keeps every change of every step.

    Args:
        target: The device whose step is followed.
        device_type: Where the tensors that stand for it are.
    """

    def __init__(self, target: Target, device_type: str) -> None:
        super().__init__(device_type)
        self._target = target
        self._on_cuda = target.device == "cuda"
        self._cublas = workspaces.cublas(target.compute_capability)
        self._cublaslt = workspaces.cublaslt()
        self._handles: set[bool] = set()
        self._step_starts: list[int] = []
        self.phase = LOAD
        self.workspaces: dict[str, Workspace] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator, with what a kernel would take for itself."""
        name = func._schema.name  # noqa: SLF001  # it has no public name
        if self._modules:
            self._owners.note(self._modules[-1])
        if self._on_cuda and name in PRODUCTS:
            self._open_handle(name)
        if name == VALUE and self.phase == OPTIMIZER_STEP:
            return 1.0
        if name == GROUPED:
            out = self._grouped(*args, **(kwargs or {}))
            self._see(out, func, args)
        elif name == LAYER_NORM and not self._on_cuda:
            out = _with_stats_of(_stats_dtype(args), func(*args, **(kwargs or {})))
            for tensor in out:
                self._see(tensor, func, args)
        else:
            out = super().__torch_dispatch__(func, types, args, kwargs)
        if self._on_cuda and name in _INSIDE:
            self._use(_INSIDE[name](args), name)
        return out

    def start_step(self, number: int) -> None:
        """A step begins; nothing is forgotten."""
        self._step = number
        self._owners.forget()
        self._step_starts.append(len(self._changes))

    def changes(self) -> list[Change]:
        """Everything so far, in order, each with the step it happened in (0 before the first)."""
        found: list[Change] = []
        starts = [*self._step_starts, len(self._changes)]
        step = 0
        for index, change in enumerate(self._changes):
            while index >= starts[step]:
                step += 1
            found.append(Change(change.storage, change.delta_bytes, change.phase, step))
        return found

    def _open_handle(self, name: str) -> None:
        """The first product of a thread makes its handle's workspace, which stays."""
        if name == WITH_BIAS:
            self.workspaces.setdefault(self._cublaslt.name, self._cublaslt)
        backward = self.phase == "backward"
        if backward not in self._handles:
            self._handles.add(backward)
            self.workspaces[self._cublas.name] = self._cublas
            storage = self._workspace(self._cublas.name, self._cublas.bytes[0], name)
            self._change(storage, storage.bytes)

    def _use(self, workspace: Workspace, op: str) -> None:
        """All pieces are there at once, beside the operator's inputs and outputs, and gone with its end."""
        if not workspace.bytes:
            return
        self.workspaces[workspace.name] = workspace
        pieces = [self._workspace(workspace.name, size, op) for size in workspace.bytes]
        for storage in pieces:
            self._change(storage, storage.bytes)
        for storage in pieces:
            storage.died_in = self.phase
            self._change(storage, -storage.bytes)

    def _workspace(self, name: str, size_bytes: int, op: str) -> Storage:
        return Storage(
            bytes=size_bytes,
            phase=self.phase,
            module=self._owner(),
            op=op,
            shape=(),
            dtype="",
            kind=WORKSPACE,
            detail=name,
            born_in_step=self._step,
        )

    def _grouped(
        self, one: Any, other: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
    ) -> Any:
        """The result of a grouped product in any format; PyTorch's own rule for shapes takes bf16 only."""
        del bias
        groups = () if offs is None or one.dim() != other.dim() else (offs.shape[0],)
        if one.dim() == 3 and other.dim() == 2:
            groups, rows = (), one.shape[1]
        else:
            rows = one.shape[-2]
        shape = (*groups, rows, other.shape[-1])
        dtype = out_dtype or one.dtype
        step = ROW_BYTES // dtype.itemsize if self._on_cuda else 1
        width = -(-shape[-1] // step) * step
        strides = (shape[-2] * width, width, 1)[-len(shape) :]
        return torch.empty_strided(shape, strides, dtype=dtype, device=one.device)


def _stats_dtype(args: tuple[Any, ...]) -> Any:
    """On a CPU mean and deviation have the weight's format (`layer_norm.cpp`), on CUDA always fp32."""
    return args[0].dtype if args[2] is None else args[2].dtype


def _with_stats_of(dtype: Any, out: Any) -> tuple[Any, ...]:
    return (out[0], *(stat.to(dtype) for stat in out[1:]))


def _flash(args: tuple[Any, ...]) -> Workspace:
    query, key = args[1], args[2]
    return workspaces.flash_backward(tuple(query.shape), key.shape[2], key.shape[1], query.dtype.itemsize)


def _flash_by_lengths(args: tuple[Any, ...]) -> Workspace:
    query, key, starts = args[1], args[2], args[6]
    tokens, heads, size = query.shape
    return workspaces.flash_backward_by_lengths(
        tokens, heads, size, starts.shape[0] - 1, key.shape[1], query.dtype.itemsize
    )


def _efficient(args: tuple[Any, ...]) -> Workspace:
    query = args[1]
    return workspaces.efficient_backward(tuple(query.shape), half=query.dtype is not torch.float32)


def _cudnn(args: tuple[Any, ...]) -> Workspace:
    return workspaces.cudnn_backward(tuple(args[1].shape))


def _safe_softmax(args: tuple[Any, ...]) -> Workspace:
    return workspaces.safe_softmax(args[0].numel(), args[0].dtype.itemsize)


def _embedding(args: tuple[Any, ...]) -> Workspace:
    return workspaces.embedding_backward(args[1].numel())


_INSIDE: Final[dict[str, Callable[[tuple[Any, ...]], Workspace]]] = {
    "aten::_scaled_dot_product_flash_attention_backward": _flash,
    "aten::_flash_attention_backward": _flash_by_lengths,
    "aten::_scaled_dot_product_efficient_attention_backward": _efficient,
    "aten::_scaled_dot_product_cudnn_attention_backward": _cudnn,
    "aten::embedding_dense_backward": _embedding,
    "aten::_safe_softmax": _safe_softmax,
}
