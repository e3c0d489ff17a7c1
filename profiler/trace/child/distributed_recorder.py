"""Records one rank of a divided job: shards behind DTensors, gathered units, and what collectives work on."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass_type

from profiler.trace.child.distributed_buckets import Buckets
from profiler.trace.child.distributed_shards import sharded_parameters
from profiler.trace.child.recorder import Recorder
from profiler.trace.division import COMMUNICATION
from profiler.trace.documents import Target
from profiler.worker.storages import Storage

WAITS: Final = frozenset({"_c10d_functional::wait_tensor", "_c10d_functional::_wrap_tensor_autograd"})
"""Their result is their argument; without memory PyTorch makes a new tensor."""

GATHER_IN: Final = "fsdp::all_gather_copy_in"
GATHER_OUT: Final = "fsdp::split_with_sizes_copy"
SCATTER_IN: Final = "fsdp::chunk_cat"


class RankRecorder(Recorder):
    """As the recorder, for one rank.

    Args:
        target: The device whose step is followed.
        device_type: Where the tensors that stand for it are.
        model: The divided model.
    """

    def __init__(self, target: Target, device_type: str, model: Any) -> None:
        super().__init__(target, device_type)
        self._model = model
        part = target.part
        whole_copies = part.copies > 1 and part.shards == 1
        self._buckets = Buckets(list(model.parameters()), part) if whole_copies else None
        self._heard: set[int] = set()

    def __enter__(self) -> "RankRecorder":
        """Start to listen; buckets are made before the first step."""
        super().__enter__()
        if self._buckets is not None:
            self._buckets.open()
            self._label(self._buckets.flat, "ddp_buckets")
        return self

    def __exit__(self, *arguments: object) -> None:
        """Stop to listen."""
        if self._buckets is not None:
            self._buckets.close()
        super().__exit__(*arguments)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator on this rank's own tensors; divided ones say which those are."""
        if any(is_traceable_wrapper_subclass_type(one) for one in types):
            return NotImplemented
        name = func._schema.name  # noqa: SLF001  # it has no public name
        if name in WAITS:
            return args[0]
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if name == GATHER_IN:
            self._label(args[0], "gather_inputs")
            self._label(args[1:2], "gather_buffers")
        elif name == GATHER_OUT:
            self._label((kwargs or {})["out"], "gathered_parameters")
        elif name == SCATTER_IN:
            self._label([(kwargs or {})["out"]], "scatter_inputs")
        return out

    def start_step(self, number: int) -> None:
        """A step begins; from the second on, units are known."""
        super().start_step(number)
        if number > 1:
            self._label_units()
            if self._buckets is not None:
                self._buckets.next_step()
                self._label(self._buckets.flat, "ddp_buckets")

    def adopt(self, tensor: Any, kind: str, owner: str = "", detail: str = "") -> None:
        """Say what a tensor is for; of a divided one, what this rank holds."""
        super().adopt(getattr(tensor, "_local_tensor", tensor), kind, owner, detail)

    def _storage_of(self, tensor: Any) -> Storage | None:
        key = tensor.untyped_storage()._cdata  # noqa: SLF001  # as the tracker keeps them
        link = self._live.get(key)
        return None if link is None else link.storage

    def _label(self, tensors: Iterable[Any], detail: str, owner: str = "") -> None:
        """Say that tensors are there for communication, unless they are known for something else."""
        for tensor in tensors:
            storage = self._storage_of(tensor)
            if storage is not None and storage.kind in (None, COMMUNICATION):
                storage.kind, storage.detail = COMMUNICATION, detail
                storage.module = owner or storage.module

    def _label_units(self) -> None:
        """Name the owners of gathered parameters, and listen to their whole gradients."""
        for one in sharded_parameters(self._model):
            name = one._param_fqn or ""  # noqa: SLF001  # it has no public name
            self._label(one.all_gather_outputs, "gathered_parameters", name)
            whole = getattr(one, "_unsharded_param", None)
            if whole is not None and whole.requires_grad and id(whole) not in self._heard:
                self._heard.add(id(whole))
                whole.register_post_accumulate_grad_hook(self._unit_gradient(name))

    def _unit_gradient(self, name: str) -> Callable[[Any], None]:
        def label(parameter: Any) -> None:
            grad = getattr(parameter.grad, "_local_tensor", parameter.grad)
            if isinstance(grad, torch.Tensor):
                self._label([grad], "unit_gradients", name)

        return label
