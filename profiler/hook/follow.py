"""One step whose tensors are followed from birth to death: slow, exact, and of the same results."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils._pytree import tree_iter

from profiler.worker.rank_tracker import RankTracker
from profiler.worker.storages import INPUT, Moment
from profiler.worker.tracker import adopt_all, adopt_model, adopt_optimizer

MOST_LISTED = 40
"""Storages of a moment that are written one by one; the rest are added up by kind."""


class FollowedStep:
    """Follows one step of a model.

    Args:
        model: The model, its forward pass about to begin.
        optimizers: Its optimizers, whose states are known.
        inputs: What the forward pass is given.
        device_type: Where its tensors stand.
    """

    def __init__(self, model: Any, optimizers: Iterable[Any], inputs: Any, device_type: str) -> None:
        self._model = model
        self._optimizers = tuple(optimizers)
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._stack = ExitStack()
        self._tracker = RankTracker(device_type)
        for handle in adopt_model(self._tracker, model):
            self._stack.callback(handle.remove)
        self._adopt_states()
        self._tracker.start_step(1)
        self._tracker.enter_phase("rest")
        tensors = (one for one in tree_iter(inputs) if isinstance(one, torch.Tensor))
        adopt_all(self._tracker, tensors, INPUT)
        self._stack.enter_context(self._tracker.watching_modules(model))
        self._tracker.__enter__()

    def enter(self, phase: str) -> None:
        """A phase begins."""
        self._tracker.enter_phase(phase)

    def end(self) -> dict[str, Any]:
        """Stop to listen, and the fullest moment of each phase as plain values."""
        if _get_current_dispatch_mode() is self._tracker:
            self._tracker.__exit__(None, None, None)
        self._stack.close()
        self._adopt_states()
        return {
            "moments": [_plain(moment) for moment in self._tracker.moments()],
            "shapes": sorted({tuple(one.shape) for one in self._model.parameters() if one.dim() > 1}),
            "vocab": _vocabulary(self._model),
        }

    def _adopt_states(self) -> None:
        for optimizer in self._optimizers:
            adopt_optimizer(self._tracker, optimizer, self._names)


def _vocabulary(model: Any) -> int:
    """Width of the logits, 0 where the model does not say."""
    config: Any = getattr(getattr(model, "module", model), "config", None)
    try:
        return int(config.get_text_config().vocab_size)
    except (AttributeError, TypeError, ValueError):
        return 0


def _plain(moment: Moment) -> dict[str, Any]:
    """A moment whose storages of one kind are one line each, but for the largest."""
    ordered = sorted(moment.alive, key=lambda pair: -pair[1])
    lines = [{**asdict(storage), "size": size, "count": 1} for storage, size in ordered[:MOST_LISTED]]
    rest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for storage, size in ordered[MOST_LISTED:]:
        key = (
            *(storage.kind, storage.detail, storage.phase, storage.died_in, storage.born_in_step),
            *(storage.shape, storage.op == "aten::_to_copy"),
        )
        line = rest.setdefault(key, {**asdict(storage), "size": 0, "count": 0})
        line["size"] += size
        line["count"] += 1
    return {
        "phase": moment.phase,
        "bytes": moment.bytes,
        "step": moment.step,
        "alive": [*lines, *rest.values()],
    }
