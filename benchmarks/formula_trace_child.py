"""`python -m benchmarks.formula_trace_child`: traces one step after another, in a process of its own.

A question is a line of JSON on standard input (`scenario`, `config`, `target`), its answer a line on standard output:
bytes allocated at each phase's fullest moment by category and kind, or why there are none.
"""

import gc
import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import torch

from planner.scenario import Scenario
from planner.units import MIB
from profiler.allocator.settings import AllocatorSettings
from profiler.trace.answer import answer
from profiler.trace.child.instant import OnPhase, instant_trace
from profiler.trace.child.session import make_trace
from profiler.trace.documents import Target
from profiler.trace.record import Trace
from profiler.worker.workloads import CannotBuildError


def traced(question: Mapping[str, Any]) -> Trace:
    """The trace of the whole model, from short ones where that is exact."""
    scenario = Scenario.model_validate_json(json.dumps(question["scenario"]))
    target = Target.model_validate_json(json.dumps(question["target"]))

    def make(config: Mapping[str, Any], on_phase: OnPhase) -> Trace:
        return make_trace(scenario, question["scenario"], config, target, on_phase)

    return instant_trace(scenario, question["config"], target, make, lambda _, __: None)


def found(question: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of a question's trace by phase; `refused` where it cannot be followed."""
    start_s = time.process_time()
    try:
        trace = traced(question)
    except CannotBuildError as error:
        return {"refused": str(error)}
    phases = {
        figures.phase: {
            "bytes": figures.peak_allocated_bytes,
            "groups": [
                [group.category, group.name, group.bytes]
                for group in figures.groups
                if group.layer == "allocated"
            ],
        }
        for figures in answer(trace, AllocatorSettings()).phases
    }
    return {"phases": phases, "cpu_s": time.process_time() - start_s}


def limit_memory(limit_bytes: int) -> None:
    """End rather than take more address space; where the system has no such limit, nothing is set."""
    try:
        import resource  # noqa: PLC0415  # not on Windows
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))


def main() -> None:
    """Answer every line."""
    limit_memory(6000 * MIB)
    torch.set_num_threads(1)
    gc.freeze()  # every step collects, and need not look at the libraries' own objects
    for line in sys.stdin:
        try:
            result = found(json.loads(line))
        except Exception as error:  # noqa: BLE001  # whatever it is, the parent is told and the next one follows
            result = {"failed": f"{type(error).__name__}: {error}"[:1000]}
        gc.collect()
        gc.freeze()
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
