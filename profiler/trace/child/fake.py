"""A workload whose tensors stand on the CPU without memory, for what shape-only tensors cannot do: autocast.

The model is built on shape-only tensors and its parameters are replaced, since PEFT cannot build on fake ones.
"""

from dataclasses import replace
from typing import Any

import torch

from planner.scenario import Scenario
from profiler.worker.workloads import Workload, autocast_maker, batch_maker, make_optimizers, scaler_for


def on_fake_cpu(work: Workload, scenario: Scenario, config: Any) -> Workload:
    """The same workload on fake tensors. Called within the mode that makes them."""
    fake_parameters(work.model)
    optimizer, in_backward = make_optimizers(work.model, scenario.training.optimizer, scenario.runtime.name)
    return replace(
        work,
        optimizer=optimizer,
        in_backward=in_backward,
        make_batch=batch_maker(scenario, config, "cpu", work.vocab_size),
        autocast=autocast_maker(scenario, "cpu"),
        scaler=scaler_for(scenario, "cpu"),
    )


def fake_parameters(model: Any) -> None:
    """Put fake tensors in place of a model's own. Called within the mode that makes them."""
    made: dict[int, Any] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            module._parameters[name] = _parameter(parameter, made)  # noqa: SLF001  # as `Module._apply` does
        for name, buffer in module.named_buffers(recurse=False):
            module._buffers[name] = _like(buffer, made)  # noqa: SLF001


def _parameter(parameter: Any, made: dict[int, Any]) -> Any:
    if id(parameter) not in made:
        fake = torch.nn.Parameter(_like(parameter.data, {}), requires_grad=parameter.requires_grad)
        made[id(parameter)] = fake
        made[id(fake)] = fake
    return made[id(parameter)]


def _like(tensor: Any, made: dict[int, Any]) -> Any:
    if id(tensor) not in made:
        fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
        made[id(tensor)] = fake
        made[id(fake)] = fake
    return made[id(tensor)]
