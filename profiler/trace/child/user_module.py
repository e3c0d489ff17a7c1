"""A user's own module as a workload: imported here, in the child, and run as any other.

The factory is called with every tensor it makes standing without memory. It returns the model and either example
inputs (a tensor, a tuple or a dict; the model's answer is then its loss) or a function that takes the model and
returns the loss.
"""

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.utils._pytree import tree_map

from planner.scenario import Scenario
from profiler.trace.child.fake import fake_parameters
from profiler.trace.module_source import FIELD, ModuleSource
from profiler.worker.workloads import (
    CannotBuildError,
    Workload,
    autocast_maker,
    cannot_build,
    make_optimizers,
    scaler_for,
)


class Stepping(torch.nn.Module):  # type: ignore[misc]  # torch is not followed by the type checker
    """Gives a user's model the face that the loop knows; its parameters and modules keep their own names.

    Args:
        model: The user's model.
        given: Example inputs, or a function of the model that returns the loss.
        device: Where new tensors stand.
    """

    def __init__(self, model: Any, given: Any, device: str) -> None:
        super().__init__()
        self._held = (model, given)  # a tuple, so that the model is not a child
        self.device = device
        self.loss_function: Callable[..., Any] = _no_loss_function

    def forward(self, **batch: Any) -> dict[str, Any]:
        """One call of the model: its loss, which stands for the logits too."""
        model, given = self._held
        with torch.device(self.device):
            if callable(given):
                answer = given(model)
            elif isinstance(given, Mapping):
                answer = model(**batch)
            else:
                answer = model(*batch.values())
        loss = _loss_of(answer)
        return {"loss": loss, "logits": loss}

    def batch(self) -> dict[str, Any]:
        """The example inputs anew."""
        given = self._held[1]
        if callable(given):
            return {}
        pairs = given.items() if isinstance(given, Mapping) else enumerate(_as_tuple(given))
        with torch.device(self.device):
            return {str(name): tree_map(self._anew, value) for name, value in pairs}

    def _anew(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        made = torch.empty(value.shape, dtype=value.dtype, device=self.device)
        return made.requires_grad_(value.requires_grad)

    def named_modules(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """The model's own."""
        return self._held[0].named_modules(*args, **kwargs)  # type: ignore[no-any-return]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """The model's own."""
        return self._held[0].named_parameters(*args, **kwargs)  # type: ignore[no-any-return]

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """The model's own."""
        return self._held[0].named_buffers(*args, **kwargs)  # type: ignore[no-any-return]


def build_module(source: ModuleSource, scenario: Scenario, device: str) -> Workload:
    """Import the factory, call it, and make the step around what it returns.

    Args:
        source: Where it is.
        scenario: Its optimizer, precision and accumulation.
        device: Where tensors stand.

    Raises:
        CannotBuildError: It is not there, fails, or returns something else.
    """
    model, given = _made(source, device)
    model.to(device)
    model.train()
    stepping = Stepping(model, given, device)
    optimizer, in_backward = make_optimizers(model, scenario.training.optimizer, scenario.runtime.name)
    trainer = scenario.runtime.name == "hf_trainer"
    return Workload(
        model=stepping,
        optimizer=optimizer,
        in_backward=in_backward,
        make_batch=stepping.batch,
        autocast=autocast_maker(scenario, "cpu"),
        accumulation=scenario.training.gradient_accumulation,
        keeps_outputs=scenario.runtime.name == "generic",
        fp32_outputs=False,
        clips=trainer,
        vocab_size=0,
        scaler=scaler_for(scenario, "cpu"),
    )


def module_on_fake_cpu(work: Workload, scenario: Scenario) -> Workload:
    """The same workload on fake tensors, for autocast. Called within the mode that makes them."""
    fake_parameters(work.model)
    work.model.device = "cpu"
    optimizer, in_backward = make_optimizers(work.model, scenario.training.optimizer, scenario.runtime.name)
    return replace(work, optimizer=optimizer, in_backward=in_backward, scaler=scaler_for(scenario, "cpu"))


def _made(source: ModuleSource, device: str) -> tuple[Any, Any]:
    factory = _factory(source)
    try:
        with torch.device(device):
            made = factory(**source.inputs)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        raise _wrong("module_failed", source, f"{type(error).__name__}: {error}") from error
    if not (isinstance(made, tuple) and len(made) == 2):
        raise _wrong("module_wrong", source, f"(model, inputs or loss) asked for, {_kind(made)} returned")
    if not isinstance(made[0], torch.nn.Module):
        raise _wrong("module_wrong", source, f"a torch.nn.Module asked for, {_kind(made[0])} returned")
    return made


def _factory(source: ModuleSource) -> Callable[..., Any]:
    name, _, path = source.target.partition(":")
    sys.path.insert(0, source.folder)
    try:
        found: Any = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise _wrong("module_not_imported", source, f"{type(error).__name__}: {error}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise _wrong("module_not_found", source, f"{getattr(found, '__name__', name)} has no {part}")
        found = getattr(found, part)
    if not callable(found):
        raise _wrong("module_wrong", source, f"a function asked for, {_kind(found)} found")
    return found  # type: ignore[no-any-return]


def _loss_of(answer: Any) -> Any:
    """The single number among what a model answers: itself, its `loss`, or the first of several."""
    found = answer
    if isinstance(answer, Mapping):
        found = answer.get("loss")
    elif not isinstance(answer, torch.Tensor):
        found = getattr(answer, "loss", answer[0] if isinstance(answer, tuple | list) and answer else None)
    if isinstance(found, torch.Tensor) and found.numel() == 1 and found.requires_grad:
        return found
    detail = f"a loss asked for (one number with a gradient), {_kind(answer)} returned"
    raise cannot_build("module_without_loss", FIELD, _kind(answer), ValueError(detail))


def _as_tuple(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _wrong(code: str, source: ModuleSource, detail: str) -> CannotBuildError:
    return cannot_build(code, FIELD, source.target, ValueError(detail))


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return type(value).__name__


def _no_loss_function(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("a user's model has a loss of its own")
