"""Who builds a workload and whose loop runs it: transformers with the common loop, or a runtime's own."""

from collections.abc import Callable, Mapping
from typing import Any

from planner.scenario import Scenario
from profiler.trace.child.kbit import build as build_packed
from profiler.trace.child.litgpt_loop import LitgptLoop
from profiler.trace.child.litgpt_loop import build as build_litgpt
from profiler.trace.child.litgpt_model import Decoder
from profiler.worker.steps import Loop
from profiler.worker.workloads import Workload, build


def build_for(scenario: Scenario, config: Mapping[str, Any], device: Any) -> Workload:
    """The workload on shape-only tensors.

    Raises:
        CannotBuildError: No class for this model, or settings it refuses.
    """
    if scenario.runtime.name == "litgpt":
        return build_litgpt(scenario, config, device)
    if scenario.task == "qlora":
        return build_packed(scenario, config, device)
    return build(scenario, config, device)


def loop_for(workload: Workload) -> Callable[..., Any]:
    """The loop that the workload's runtime runs it in."""
    return LitgptLoop if isinstance(workload.model, Decoder) else Loop
