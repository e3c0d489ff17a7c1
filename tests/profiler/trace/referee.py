"""`python -m tests.profiler.trace.referee CASE...` (or `--all`): a real step and its trace, one line of JSON a case.

Runs in a process of its own, since it loads PyTorch.
"""

import json
import sys
import time
from typing import Any

import torch

from planner.scenario import Scenario
from profiler.documents import Options
from profiler.trace.child.session import make_trace
from profiler.trace.child.user_module import build_module
from profiler.trace.documents import Target
from profiler.trace.module_source import ModuleSource
from profiler.worker.measure import Run
from profiler.worker.meters import TensorMeter
from profiler.worker.steps import Clock
from profiler.worker.workloads import build
from tests.profiler.scenarios import scenario
from tests.profiler.trace.cases import ALL
from tests.profiler.trace.peaks import tensor_peaks


def source_of(config: dict[str, Any]) -> ModuleSource | None:
    """The user's own module that a case is about, None for a model of transformers."""
    target = config.get("module")
    return None if target is None else ModuleSource(target=target, folder=".")


def real_peaks(config: dict[str, Any], document: dict[str, Any]) -> tuple[dict[str, int], int]:
    """Peaks of a real step by phase, and the bytes of the optimizer's counters, which on CUDA stay on the host."""
    torch.manual_seed(0)
    asked, source = Scenario.model_validate(document), source_of(config)
    work = build(asked, config, "cpu") if source is None else build_module(source, asked, "cpu")
    run = Run(work, TensorMeter(work, "cpu"), Clock(time.perf_counter), lambda _: None, lambda _: None)
    figures = run.steps(Options(steps=1)).figures
    counters = sum(group.bytes for group in figures["rest"].groups if group.name == "step")
    return {phase: one.peak_allocated_bytes for phase, one in figures.items()}, counters


def traced_peaks(config: dict[str, Any], document: dict[str, Any]) -> dict[str, int]:
    """The same of the trace."""
    target = Target(device="cpu")
    asked, source = Scenario.model_validate(document), source_of(config)
    return tensor_peaks(make_trace(asked, document, config, target, module=source))


def main(names: list[str]) -> None:
    """Print real and traced peaks of each case."""
    torch.set_num_threads(1)
    for name in ALL if names == ["--all"] else names:
        config, changes = ALL[name]
        document = scenario(config, **changes)
        real, counters = real_peaks(config, document)
        traced = traced_peaks(config, document)
        print(json.dumps({"case": name, "real": real, "traced": traced, "counters": counters}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
