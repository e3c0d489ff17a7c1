"""The tracker on a rank's own tensors: what DTensor and FSDP2 wrap is counted, the wrapper is not.

What ranks talk through is told apart where PyTorch shows it: FSDP2's gather and scatter buffers by the operators that
fill them, DDP's buckets by the first write into memory that no operator has made.
"""

from collections.abc import Iterable
from typing import Any, Final

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass, is_traceable_wrapper_subclass_type

from profiler.worker.storages import COMMUNICATION
from profiler.worker.tracker import Tracker

GATHER_IN: Final = "fsdp::all_gather_copy_in"
GATHER_OUT: Final = "fsdp::split_with_sizes_copy"
SCATTER_IN: Final = "fsdp::chunk_cat"
EMPTY: Final = "aten::empty"


class RankTracker(Tracker):
    """Counts the storages of one device, whether or not tensors are divided over ranks."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Leave an operator on divided tensors to them; what it does to the pieces comes here again."""
        if any(is_traceable_wrapper_subclass_type(one) for one in types):
            return NotImplemented
        given = (kwargs or {}).get("out")
        bucket = self.phase == "backward" and isinstance(given, torch.Tensor) and self._is_bucket(given)
        out = super().__torch_dispatch__(func, types, args, kwargs)
        name = func._schema.name  # noqa: SLF001  # it has no public name
        if bucket:
            self._label([given], "ddp_buckets")
        elif name == GATHER_IN:
            self._label(args[0], "gather_inputs")
            self._label(args[1:2], "gather_buffers")
        elif name == GATHER_OUT:
            self._label(given or (), "gathered_parameters")
        elif name == SCATTER_IN:
            self._label([given], "scatter_inputs")
        return out

    def adopt(self, tensor: Any, kind: str, owner: str = "", detail: str = "") -> None:
        """Say what a tensor is for; of a divided one, what its piece is for."""
        super().adopt(getattr(tensor, "_local_tensor", tensor), kind, owner, detail)

    def _see(self, tensor: Any, func: Any, args: tuple[Any, ...]) -> None:
        """A wrapper has a storage by name only; what it wraps was seen."""
        if isinstance(tensor, torch.Tensor) and not is_traceable_wrapper_subclass(tensor):
            super()._see(tensor, func, args)

    def _is_bucket(self, tensor: Any) -> bool:
        """Memory that nobody made, or a flat one that was made empty: DDP lays its buckets anew in the second step."""
        link = self._live.get(tensor.untyped_storage()._cdata)  # noqa: SLF001  # as the tracker keeps them
        return link is None or (link.storage.op == EMPTY and len(link.storage.shape) == 1)

    def _label(self, tensors: Iterable[Any], detail: str) -> None:
        """Say that tensors are there for communication, unless they are known for something else."""
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor):
                continue
            link = self._live.get(tensor.untyped_storage()._cdata)  # noqa: SLF001
            if link is not None and link.storage.kind is None:
                link.storage.kind, link.storage.detail = COMMUNICATION, detail
