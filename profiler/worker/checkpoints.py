"""Which activations a model computes again in the backward pass.

- `full`: every layer, as transformers does it.
- `every_k`: k layers together, so that one input in k is kept (Megatron's uniform method, `checkpoint_sequential`).
- `selective_attention`: what lies between queries, keys, values and the output projection (Megatron's selective
  recomputation).
- `selective_op`: every operator of a layer but attention and every second matrix product
  (torchtitan/distributed/activation_checkpoint.py, `_get_custom_policy`).
"""

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from planner.scenario import Training

_ATEN: Final = torch.ops.aten
PRODUCT: Final = _ATEN.mm.default
KEPT: Final = frozenset(
    {
        PRODUCT,
        _ATEN._scaled_dot_product_flash_attention.default,  # noqa: SLF001  # operators' names
        _ATEN._scaled_dot_product_efficient_attention.default,  # noqa: SLF001
        _ATEN._scaled_dot_product_cudnn_attention.default,  # noqa: SLF001
        _ATEN._scaled_dot_product_flash_attention_for_cpu.default,  # noqa: SLF001
        _ATEN.max.default,
    }
)
"""Operators whose results are kept; the CPU's attention stands beside CUDA's."""

MARK: Final = "attention_is_checkpointed"
EAGER: Final = "eager_attention_forward"
Function = Callable[..., Any]


def checkpoint_layers(model: Any, training: Training) -> None:
    """Switch on what the scenario asks for.

    Args:
        model: A transformers model or PEFT's wrapper around one.
        training: The scenario's block; `checkpointing` other than `none`.

    Raises:
        ValueError: The class offers no checkpointing.
    """
    kind = training.checkpointing
    if kind == "selective_attention":
        _checkpoint_attention(model)
        return
    settings: dict[str, Any] = {"use_reentrant": bool(training.checkpoint_reentrant)}
    if kind == "selective_op":
        settings["context_fn"] = _contexts
    model.activation_checkpointing_enable(activation_checkpointing_kwargs=settings)
    if kind == "every_k" and (training.checkpoint_every or 1) > 1:
        _group_layers(model, training.checkpoint_every or 1)


def _contexts() -> Any:
    """Fresh policies of one layer: products are counted apart in both passes."""
    counts: Counter[bool] = Counter()

    def policy(context: Any, operator: Any, *_: Any, **__: Any) -> Any:
        if operator is PRODUCT:
            counts[context.is_recompute] += 1
        every_second = operator is PRODUCT and counts[context.is_recompute] % 2 == 0
        keeps = operator in KEPT and not every_second
        return CheckpointPolicy.MUST_SAVE if keeps else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def _group_layers(model: Any, size: int) -> None:
    for parent in model.modules():
        if isinstance(parent, torch.nn.ModuleList):
            layers = [layer for layer in parent if isinstance(layer, GradientCheckpointingLayer)]
            for start in range(0, len(layers), size):
                _Group(layers[start : start + size])


class _Held(tuple[Any]):
    """The input of a group, handed on by layers that have not run; it is its own first piece where a model takes that.

    Some classes' layers put out the stream alone, others a tuple that begins with it (`BloomBlock`).
    """

    __slots__ = ()


class _Group:
    """Layers that are computed again together.

    The model goes on calling each of them; all but the last only take note of their arguments, and the last runs
    the whole group under one checkpoint.
    """

    def __init__(self, layers: list[Any]) -> None:
        self._layers = layers
        self._forwards = [layer.forward for layer in layers]
        self._checkpoint: Function = layers[-1]._gradient_checkpointing_func  # noqa: SLF001  # it has no public name
        self._calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._inside = False
        for index, layer in enumerate(layers):
            layer.gradient_checkpointing = False
            layer.forward = partial(self._call, index)

    def _call(self, index: int, hidden: Any, *args: Any, **kwargs: Any) -> Any:
        if self._inside:
            return self._forwards[index](hidden, *args, **kwargs)
        hidden = hidden[0] if isinstance(hidden, _Held) else hidden
        self._calls.append((args, kwargs))
        if index + 1 < len(self._layers):
            return _Held((hidden,))
        calls, self._calls = self._calls, []
        return self._checkpoint(partial(self._run, calls), hidden)

    def _run(self, calls: list[tuple[tuple[Any, ...], dict[str, Any]]], hidden: Any) -> Any:
        self._inside, out = True, hidden
        try:
            for layer, (args, kwargs) in zip(self._layers, calls, strict=True):
                out = layer(out[0] if isinstance(out, tuple) else out, *args, **kwargs)
        finally:
            self._inside = False
        return out


def _checkpoint_attention(model: Any) -> None:
    """Run the attention function of every layer under a checkpoint, whichever implementation the model has."""
    setattr(model.config, MARK, True)
    for name in sorted({type(module).__module__ for module in model.modules()}):
        home = sys.modules[name]
        if hasattr(home, EAGER):
            setattr(home, EAGER, _checkpointed(getattr(home, EAGER)))
    ALL_ATTENTION_FUNCTIONS.register("sdpa", _checkpointed(ALL_ATTENTION_FUNCTIONS["sdpa"]))


def _checkpointed(original: Function) -> Function:
    """The same function, under a checkpoint for the models that ask for it."""
    if hasattr(original, MARK):
        return original

    def attend(module: Any, *args: Any, **kwargs: Any) -> Any:
        if not getattr(module.config, MARK, False):
            return original(module, *args, **kwargs)
        return checkpoint(original, module, *args, use_reentrant=False, **kwargs)

    setattr(attend, MARK, True)
    return attend
