"""Ties a watcher to PyTorch: hooks of one model, of optimizers, and around the backward pass."""

import functools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch.optim import optimizer as optimizers

from profiler.hook.watcher import Watcher

Undo = Callable[[], None]


def attach_model(watcher: Watcher, model: Any) -> Undo:
    """Watch the forward passes of a model that train, and its loss function where the class has one.

    Args:
        watcher: Who is told.
        model: The outermost module that the program calls.
    """
    stack = ExitStack()
    watcher.set_model(model)

    def before(_: Any, args: Any, kwargs: Any) -> None:
        watcher.forward_begins((args, kwargs), trains=model.training and torch.is_grad_enabled())

    def after(_: Any, __: Any, output: Any) -> None:
        if model.training and torch.is_grad_enabled():
            watcher.forward_ends(output)

    stack.callback(model.register_forward_pre_hook(before, with_kwargs=True).remove)
    stack.callback(model.register_forward_hook(after).remove)
    _attach_loss(watcher, model, stack)
    return stack.close


def _attach_loss(watcher: Watcher, model: Any, stack: ExitStack) -> None:
    """Transformers' models call a function of their own inside the forward pass; compiled ones are left alone."""
    inner = getattr(model, "module", model)
    inner = inner.get_base_model() if hasattr(inner, "get_base_model") else inner
    compiled = hasattr(model, "_orig_mod") or getattr(inner, "_compiled_call_impl", None) is not None
    original = getattr(inner, "loss_function", None)
    if compiled or not callable(original) or isinstance(original, torch.nn.Module):
        return

    @functools.wraps(original)
    def loss_function(*args: Any, **kwargs: Any) -> Any:
        if inner.training and torch.is_grad_enabled():
            watcher.loss_begins(kwargs.get("logits", args[0] if args else None))
        return original(*args, **kwargs)

    try:
        inner.loss_function = loss_function
    except (AttributeError, TypeError):
        return
    stack.callback(setattr, inner, "loss_function", original)


def attach_optimizer(watcher: Watcher, optimizer: Any) -> Undo:
    """Watch the steps of one optimizer."""
    stack = ExitStack()
    before = optimizer.register_step_pre_hook(lambda one, *_: watcher.optimizer_begins(one))
    after = optimizer.register_step_post_hook(lambda *_: watcher.optimizer_ends())
    stack.callback(before.remove)
    stack.callback(after.remove)
    return stack.close


def attach_every_optimizer(watcher: Watcher, seen: Callable[[Any], None]) -> Undo:
    """Watch the steps of all optimizers, made or to be made.

    Args:
        watcher: Who is told.
        seen: Told the optimizer before each of its steps.
    """

    def before(one: Any, *_: Any) -> None:
        seen(one)
        watcher.optimizer_begins(one)

    stack = ExitStack()
    stack.callback(optimizers.register_optimizer_step_pre_hook(before).remove)
    stack.callback(optimizers.register_optimizer_step_post_hook(lambda *_: watcher.optimizer_ends()).remove)
    return stack.close


def attach_backward(watcher: Watcher) -> Undo:
    """Watch `Tensor.backward` and `torch.autograd.backward`; what they are given and return stays as it is."""
    original = torch.autograd.backward

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        watcher.backward_begins()
        try:
            return original(*args, **kwargs)
        finally:
            watcher.backward_ends()

    torch.autograd.backward = backward

    def undo() -> None:
        if torch.autograd.backward is backward:
            torch.autograd.backward = original

    return undo
