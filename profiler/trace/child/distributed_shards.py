"""FSDP2 on tensors without memory: `fully_shard` per transformer block and for the root.

FSDP2 asks a device for its streams and events, and refuses parameters without memory. Streams order work and hold no
memory, so empty ones stand in; everything that allocates is PyTorch's own code.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, Final

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp._fully_shard import (
    _fsdp_collectives,
    _fsdp_init,
    _fsdp_param_group,
    _fsdp_state,
    _fully_shard,
)

from profiler.trace.documents import Part
from profiler.worker.workloads import DTYPES, cannot_build

MODULES: Final = (_fsdp_collectives, _fsdp_init, _fsdp_param_group, _fsdp_state, _fully_shard)


class _Event:
    """Marks a moment; nothing runs, so nothing waits."""

    def record(self, *_: Any) -> "_Event":
        """Mark it."""
        return self

    def wait(self, *_: Any) -> None:
        """Wait for it."""

    def synchronize(self) -> None:
        """Wait for it."""


class _Stream:
    """Orders work; nothing runs."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def wait_stream(self, _: Any) -> None:
        """Wait for another."""

    def wait_event(self, _: Any) -> None:
        """Wait for an event."""

    def record_event(self, *_: Any) -> _Event:
        """Mark a moment."""
        return _Event()


class Device:
    """What FSDP2 asks of `torch.cuda`."""

    Stream = _Stream
    Event = _Event

    @staticmethod
    def stream(_: Any) -> Any:
        """Work inside goes to a stream."""
        return nullcontext()

    @staticmethod
    def current_stream(*_: Any) -> _Stream:
        """The stream that work goes to."""
        return _Stream()


@contextmanager
def stand_ins(device_type: str) -> Iterator[None]:
    """Let FSDP2 take tensors of `device_type` for those of its device."""
    device = torch.device(device_type)
    known: dict[str, Any] = {
        "_get_device_handle": lambda *_: Device,
        "_get_device_from_mesh": lambda *_: device,
    }
    with ExitStack() as stack:

        def put(owner: Any, name: str, value: Any) -> None:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

        for module in MODULES:
            for name in known.keys() & vars(module).keys():
                put(module, name, known[name])
        put(_fsdp_param_group.FSDPParamGroup, "_validate_no_meta_params", lambda _: None)
        yield


def blocks(model: Any) -> list[Any]:
    """The transformer blocks, as the class itself names what is not to be split, but for those that share.

    A parameter that is used outside its block as well (a tied embedding) belongs to the root.

    Raises:
        CannotBuildError: The class names none.
    """
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    names = set(getattr(inner, "_no_split_modules", None) or ())
    uses = Counter(id(p) for module in model.modules() for p in module.parameters(recurse=False))
    found = [
        module
        for module in model.modules()
        if type(module).__name__ in names and all(uses[id(p)] == 1 for p in module.parameters())
    ]
    if not found:
        raise cannot_build("no_units_to_shard", "model", type(inner).__name__)
    return found


def shard(model: Any, mesh: Any, part: Part) -> None:
    """Shard every block, then the rest as the root, and say what is gathered ahead.

    Args:
        model: The model; its parameters become shards.
        mesh: One dimension to shard over, or copies and shards.
        part: Formats and policies.
    """
    policy = MixedPrecisionPolicy(
        param_dtype=None if part.compute is None else DTYPES[part.compute],
        reduce_dtype=None if part.reduce is None else DTYPES[part.reduce],
    )
    units = blocks(model)
    for unit in units:
        fully_shard(unit, mesh=mesh, mp_policy=policy, reshard_after_forward=part.reshard)
    root = {"reshard_after_forward": True} if part.reshard_root else {}
    fully_shard(model, mesh=mesh, mp_policy=policy, **root)
    for place, unit in enumerate(units):
        if part.forward_prefetch:
            unit.set_modules_to_forward_prefetch(units[place + 1 : place + 1 + part.forward_prefetch])
        if part.backward_prefetch is not None:
            first = max(0, place - part.backward_prefetch)
            unit.set_modules_to_backward_prefetch(units[first:place][::-1])


def sharded_parameters(model: Any) -> Iterator[Any]:
    """FSDP2's own records of the parameters: shard, gathered whole, and name."""
    for module in model.modules():
        state = _fsdp_state._get_module_fsdp_state(module)  # noqa: SLF001  # it has no public name
        if state is not None:
            for group in state._fsdp_param_groups:  # noqa: SLF001
                yield from group.fsdp_params
