"""Who builds a workload and whose loop runs it: transformers with the common loop, or a runtime's own."""

from collections.abc import Callable, Mapping
from typing import Any

from planner.model import UnknownArchitecture, model_from_config
from planner.model.spec import Structure
from planner.scenario import Scenario
from profiler.trace.child.kbit import build as build_packed
from profiler.trace.child.litgpt_loop import LitgptLoop
from profiler.trace.child.litgpt_loop import build as build_litgpt
from profiler.trace.child.litgpt_model import Decoder
from profiler.trace.child.older_losses import use_older_loss, version_of
from profiler.worker.steps import Loop
from profiler.worker.workloads import Workload, build


def build_for(scenario: Scenario, config: Mapping[str, Any], device: Any) -> Workload:
    """The workload on shape-only tensors.

    Raises:
        CannotBuildError: No class for this model, or settings it refuses.
    """
    if scenario.runtime.name == "litgpt":
        return build_litgpt(scenario, config, device)
    workload = (build_packed if scenario.task == "qlora" else build)(scenario, config, device)
    version = version_of(scenario.runtime.version)
    stock = scenario.training.loss in (None, "standard")
    if scenario.runtime.name == "hf_trainer" and version is not None and stock and _is_decoder(config):
        use_older_loss(workload.model, version)
    return workload


def _is_decoder(config: Mapping[str, Any]) -> bool:
    try:
        return model_from_config(config).structure is Structure.DECODER
    except UnknownArchitecture:
        return False


def loop_for(workload: Workload) -> Callable[..., Any]:
    """The loop that the workload's runtime runs it in."""
    return LitgptLoop if isinstance(workload.model, Decoder) else Loop
