"""`python -m tests.profiler.trace.instant_referee CASE...`: full and instant mode, one line of JSON a case.

Runs in a process of its own, since it loads PyTorch.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import torch

from hardware_db import load_tables
from planner.estimate import plan
from planner.scenario import Scenario
from profiler.allocator.settings import AllocatorSettings
from profiler.trace.alignment import deaths_in_order
from profiler.trace.answer import Answer, answer
from profiler.trace.child.instant import OnPhase, instant_trace
from profiler.trace.child.session import make_trace
from profiler.trace.record import Trace
from profiler.trace.request import ask
from tests.profiler.trace.instant_cases import ALL

CAPABILITY = (9, 0)
ALLOCATORS = (AllocatorSettings(), AllocatorSettings(expandable_segments=True))
ALIKE = ("storages", "marks", "params_total", "params_trainable", "parameter_shapes", "workspaces", "config")


def both(document: dict[str, Any]) -> tuple[tuple[Trace, float], tuple[Trace, float]]:
    """The full and the instant trace of a scenario, with the seconds each took."""
    asked = ask(plan(Scenario.model_validate(document), load_tables()), CAPABILITY)
    if asked.refused:
        raise SystemExit(f"refused: {asked.refused}")
    scenario = Scenario.model_validate(asked.scenario)
    target = asked.options.target

    def make(config: Mapping[str, Any], on_phase: OnPhase) -> Trace:
        return make_trace(scenario, asked.scenario, config, target, on_phase)

    start_s = time.perf_counter()
    instant = instant_trace(scenario, asked.config, target, make, lambda _, __: None)
    middle_s = time.perf_counter()
    full = make(asked.config, lambda _, __: None)
    return (full, time.perf_counter() - middle_s), (instant, middle_s - start_s)


def differences(full: Trace, instant: Trace) -> list[str]:
    """What is not the same: parts of the record, and of the answers of two allocators."""
    found = [name for name in ALIKE if getattr(full, name) != getattr(instant, name)]
    if deaths_in_order(full) != deaths_in_order(instant):
        found.append("events")
    for settings in ALLOCATORS:
        one, other = (_figures(answer(trace, settings)) for trace in (full, instant))
        found += [name for name, value in one.items() if other[name] != value]
    return found


def _figures(seen: Answer) -> dict[str, Any]:
    return {
        "peak_allocated_bytes": seen.peak_allocated_bytes,
        "peak_reserved_bytes": seen.peak_reserved_bytes,
        "peak_tensor_bytes": seen.peak_tensor_bytes,
        "phase": seen.phase,
        "categories": seen.categories(),
        "phases": seen.phases,
    }


def main(names: list[str]) -> None:
    """Print how each case went."""
    torch.set_num_threads(1)
    for name in names:
        (full, full_s), (instant, instant_s) = both(ALL[name])
        seen = answer(full, ALLOCATORS[0])
        line = {
            "case": name,
            "differences": differences(full, instant),
            "instant": None if instant.instant is None else instant.instant.model_dump(),
            "layers": instant.config.get("num_hidden_layers"),
            "peak_allocated_bytes": seen.peak_allocated_bytes,
            "peak_reserved_bytes": seen.peak_reserved_bytes,
            "full_s": round(full_s, 2),
            "instant_s": round(instant_s, 2),
        }
        print(json.dumps(line), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
