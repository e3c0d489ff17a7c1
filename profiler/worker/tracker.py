"""Follows every storage of a step from its birth to its death, at the dispatcher.

A storage is seen when an operator first returns a tensor on it and forgotten when the storage itself dies (a
weak reference to it), so views, in-place operators and shared weights count once and nothing is counted after
its end. What a storage was for is often known only later (a gradient is a plain product until it is stored),
so events are kept for a step and replayed at its end with the labels known by then.

Not seen: memory that a kernel allocates and frees inside one operator (workspaces).
"""

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from profiler.worker.owners import Owners
from profiler.worker.storages import (
    BUFFER,
    CAST,
    GRADIENT,
    OPTIMIZER_STATE,
    PARAMETER,
    RECOMPUTED,
    Moment,
    Storage,
)


class _Link(weakref.ref[Any]):
    """A weak reference to a storage that knows what it stood for."""

    __slots__ = ("key", "storage")
    key: int
    storage: Storage


@dataclass(slots=True)
class _Change:
    """Bytes gained (or lost, negative) by a storage; a change of phase has no storage."""

    storage: Storage | None
    delta_bytes: int
    phase: str


class Tracker(TorchDispatchMode):  # type: ignore[misc]  # torch is not followed by the type checker
    """Counts the storages of one device.

    Args:
        device_type: `cpu` or `cuda`; tensors elsewhere are ignored.
    """

    def __init__(self, device_type: str) -> None:
        super().__init__()
        self._device_type = device_type
        self._live: dict[int, _Link] = {}
        self._changes: list[_Change] = []
        self._start: dict[Storage, int] = {}
        self._modules: list[str] = []
        self._owners = Owners()
        self._step = 0
        self._resize: Callable[..., Any] = torch.UntypedStorage.resize_
        self.phase = "rest"
        self.live_bytes = 0

    def __enter__(self) -> "Tracker":
        """Start to listen, resizing of storages included, which no operator shows."""
        self._resize = original = torch.UntypedStorage.resize_

        def resize(storage: Any, size: int) -> Any:
            answer = original(storage, size)
            self._note_size(storage)
            return answer

        torch.UntypedStorage.resize_ = resize
        super().__enter__()
        return self

    def __exit__(self, *arguments: object) -> None:
        """Stop to listen."""
        torch.UntypedStorage.resize_ = self._resize
        super().__exit__(*arguments)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one operator and note what it returned."""
        if self._modules:
            self._owners.note(self._modules[-1])
        out = func(*args, **(kwargs or {}))
        for item in (out,) if isinstance(out, torch.Tensor) else tree_iter(out):
            if isinstance(item, torch.Tensor):
                self._see(item, func, args)
        return out

    def adopt(self, tensor: Any, kind: str, owner: str = "", detail: str = "") -> None:
        """Say what a tensor is for, whether or not it was seen before."""
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != self._device_type:
            return
        untyped = tensor.untyped_storage()
        link = self._live.get(_key(untyped))
        storage = link.storage if link else self._add(untyped, tensor, "")
        if storage.kind is None or kind == GRADIENT:
            storage.kind, storage.module, storage.detail = kind, owner, detail

    def enter_phase(self, name: str) -> None:
        """Everything from here on belongs to this phase."""
        self.phase = name
        self._changes.append(_Change(None, 0, name))

    def start_step(self, number: int) -> None:
        """Forget the events so far; what is alive stays."""
        self._step = number
        self._owners.forget()
        self._changes.clear()
        self._start = {link.storage: link.storage.bytes for link in self._live.values()}

    def moments(self) -> tuple[Moment, ...]:
        """The fullest moment of every phase since `start_step`, in order of first appearance."""
        best = self._fullest()
        alive, found = dict(self._start), dict[str, Moment]()
        ends = {index: phase for phase, (index, _) in best.items()}
        for index, change in enumerate(self._changes):
            _apply(alive, change)
            if index in ends:
                found[ends[index]] = Moment(
                    ends[index], sum(alive.values()), self._step, tuple(alive.items())
                )
        return tuple(found[phase] for phase in best)

    def alive(self) -> tuple[tuple[Storage, int], ...]:
        """What is alive now."""
        return tuple((link.storage, link.storage.bytes) for link in self._live.values())

    @contextmanager
    def watching_modules(self, model: Any) -> Iterator[None]:
        """Note the innermost running module of `model` while inside."""
        handles = []
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(self._entering(name)))
            handles.append(module.register_forward_hook(self._leaving(name), always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _entering(self, name: str) -> Callable[..., None]:
        return lambda *_: self._modules.append(name)

    def _leaving(self, name: str) -> Callable[..., None]:
        def leave(*_: object) -> None:
            while self._modules and self._modules.pop() != name:
                pass  # a module left by an exception that no hook saw

        return leave

    def _fullest(self) -> dict[str, tuple[int, int]]:
        """By phase: index of the change after which most was alive, and how much that was."""
        total = sum(self._start.values())
        best: dict[str, tuple[int, int]] = {}
        for index, change in enumerate(self._changes):
            total += change.delta_bytes
            if change.phase not in best or total > best[change.phase][1]:
                best[change.phase] = (index, total)
        return best

    def _see(self, tensor: Any, func: Any, args: tuple[Any, ...]) -> None:
        if tensor.device.type != self._device_type:
            return
        untyped = tensor.untyped_storage()
        link = self._live.get(_key(untyped))
        if link is not None:
            if untyped.nbytes() != link.storage.bytes:
                self._note_size(untyped)
            return
        storage = self._add(untyped, tensor, func.name().partition(".")[0])
        if self.phase == "backward" and self._modules:
            storage.detail = RECOMPUTED
        if storage.op == "aten::_to_copy" and self._is_parameter(args[0]) and args[0].is_floating_point():
            storage.detail = CAST

    def _is_parameter(self, tensor: Any) -> bool:
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != self._device_type:
            return False
        link = self._live.get(_key(tensor.untyped_storage()))
        return link is not None and link.storage.kind == PARAMETER

    def _add(self, untyped: Any, tensor: Any, op: str) -> Storage:
        storage = Storage(
            bytes=untyped.nbytes(),
            phase=self.phase,
            module=self._owner(),
            op=op,
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            born_in_step=self._step,
        )
        link = _Link(untyped, self._died)
        link.key, link.storage = _key(untyped), storage
        self._live[link.key] = link
        self._change(storage, storage.bytes)
        return storage

    def _owner(self) -> str:
        """The module at work: the one running, or the one whose operator is being differentiated."""
        return self._modules[-1] if self._modules else self._owners.current()

    def _note_size(self, untyped: Any) -> None:
        link = self._live.get(_key(untyped))
        if link is not None:
            size = untyped.nbytes()
            self._change(link.storage, size - link.storage.bytes)
            link.storage.bytes = size

    def _died(self, link: _Link) -> None:
        if self._live.get(link.key) is link:
            del self._live[link.key]
            link.storage.died_in = self.phase
            self._change(link.storage, -link.storage.bytes)

    def _change(self, storage: Storage, delta_bytes: int) -> None:
        if delta_bytes:
            self.live_bytes += delta_bytes
            self._changes.append(_Change(storage, delta_bytes, self.phase))


def _key(untyped: Any) -> int:
    """Address of the storage itself; the same for every tensor on it."""
    return untyped._cdata  # type: ignore[no-any-return]  # noqa: SLF001  # it has no public name


def _apply(alive: dict[Storage, int], change: _Change) -> None:
    if change.storage is None:
        return
    size = alive.get(change.storage, 0) + change.delta_bytes
    if size:
        alive[change.storage] = size
    else:
        alive.pop(change.storage, None)


def adopt_model(tracker: Tracker, model: Any) -> list[Any]:
    """Label parameters, buffers and, as they come, gradients. Returns the hooks' handles."""
    for name, parameter in model.named_parameters():
        tracker.adopt(parameter, PARAMETER, name)
        tracker.adopt(parameter.grad, GRADIENT, name)
    for name, buffer in model.named_buffers():
        tracker.adopt(buffer, BUFFER, name)
    return [
        parameter.register_post_accumulate_grad_hook(_label_gradient(tracker, name))
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    ]


def adopt_optimizer(tracker: Tracker, optimizer: Any, names: dict[int, str]) -> None:
    """Label an optimizer's states; `names` gives a parameter's name by its `id`."""
    for parameter, states in optimizer.state.items():
        for key, value in states.items():
            for tensor in tree_iter(value):
                tracker.adopt(tensor, OPTIMIZER_STATE, names.get(id(parameter), ""), str(key))


def adopt_all(tracker: Tracker, tensors: Iterable[Any], kind: str) -> None:
    """Label several tensors alike."""
    for tensor in tensors:
        tracker.adopt(tensor, kind)


def _label_gradient(tracker: Tracker, name: str) -> Callable[[Any], None]:
    return lambda parameter: tracker.adopt(parameter.grad, GRADIENT, name)
