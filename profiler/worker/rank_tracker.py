"""The tracker on a rank's own tensors: what DTensor and FSDP2 wrap is counted, the wrapper is not."""

from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass, is_traceable_wrapper_subclass_type

from profiler.worker.tracker import Tracker


class RankTracker(Tracker):
    """Counts the storages of one device, whether or not tensors are divided over ranks."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Leave an operator on divided tensors to them; what it does to the pieces comes here again."""
        if any(is_traceable_wrapper_subclass_type(one) for one in types):
            return NotImplemented
        return super().__torch_dispatch__(func, types, args, kwargs)

    def adopt(self, tensor: Any, kind: str, owner: str = "", detail: str = "") -> None:
        """Say what a tensor is for; of a divided one, what its piece is for."""
        super().adopt(getattr(tensor, "_local_tensor", tensor), kind, owner, detail)

    def _see(self, tensor: Any, func: Any, args: tuple[Any, ...]) -> None:
        """A wrapper has a storage by name only; what it wraps was seen."""
        if isinstance(tensor, torch.Tensor) and not is_traceable_wrapper_subclass(tensor):
            super()._see(tensor, func, args)
