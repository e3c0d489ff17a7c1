"""`python -m benchmarks.trace_speed_child TOOL`: one model followed by one tool, in a process of its own.

The question comes on standard input as JSON (`scenario`, `config`, `target`), the figures go out as JSON. Loads
PyTorch; what that takes is not counted.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import torch
from torch.distributed._tools.mem_tracker import MemTracker

from planner.scenario import Scenario
from planner.units import KIB
from profiler.host_memory import own_resident_bytes
from profiler.trace.child.instant import OnPhase, instant_trace
from profiler.trace.child.session import SHAPES_ONLY, STEPS, make_trace
from profiler.trace.child.stand_ins import in_force
from profiler.trace.documents import Target
from profiler.trace.record import Trace
from profiler.trace.workspaces import WORKSPACE
from profiler.worker.workloads import CLIP_NORM, Workload, build

STATUS: Final = Path("/proc/self/status")
Question = Mapping[str, Any]
Peak = int


def by_full(question: Question) -> Peak:
    """Our trace of the whole model."""
    return tensor_peak(_maker(question)(question["config"], _quietly))


def by_instant(question: Question) -> Peak:
    """Our trace from short models."""
    trace = instant_trace(
        _scenario(question), question["config"], _target(question), _maker(question), _quietly
    )
    if trace.instant is None or trace.instant.code:
        raise SystemExit(f"not extended: {trace.instant}")
    return tensor_peak(trace)


def by_mem_tracker(question: Question) -> Peak:
    """PyTorch's MemTracker around the same steps of the same model on the same shape-only tensors."""
    target = _target(question)
    with ExitStack() as stack:
        stack.enter_context(in_force(target, SHAPES_ONLY))
        work = build(_scenario(question), question["config"], SHAPES_ONLY)
        tracker = MemTracker()
        tracker.track_external(work.model, work.optimizer)
        peaks = []
        for _ in range(STEPS):
            tracker.reset_mod_stats()  # it refuses a module's second step otherwise
            with tracker:
                step(work)
            snapshot = tracker.get_tracker_snapshot("peak")  # of this step
            peaks.append(int(snapshot[torch.device(SHAPES_ONLY)]["Total"]))
    return max(peaks)


def step(work: Workload) -> None:
    """One step as our loop makes it, for workloads of one micro-batch."""
    batch = work.make_batch()
    outputs = work.model(**batch)
    loss = outputs["loss"]
    del outputs, batch
    loss.backward()
    del loss
    if work.clips:
        torch.nn.utils.clip_grad_norm_(work.model.parameters(), CLIP_NORM)
    work.optimizer.step()
    work.optimizer.zero_grad(set_to_none=True)


def tensor_peak(trace: Trace) -> Peak:
    """Highest live bytes of a run without kernels' own workspaces, which no tracker sees."""
    columns = trace.storages
    inside = [columns.words[kind] == WORKSPACE for kind in columns.kind]
    live = peak = 0
    for event in trace.events:
        number = event if event >= 0 else -event - 1
        if not inside[number]:
            live += columns.bytes[number] if event >= 0 else -columns.bytes[number]
            peak = max(peak, live)
    return peak


def _maker(question: Question) -> Callable[[Mapping[str, Any], OnPhase], Trace]:
    scenario, target = _scenario(question), _target(question)

    def make(config: Mapping[str, Any], on_phase: OnPhase) -> Trace:
        return make_trace(scenario, question["scenario"], config, target, on_phase)

    return make


def _scenario(question: Question) -> Scenario:
    return Scenario.model_validate_json(json.dumps(question["scenario"]))


def _target(question: Question) -> Target:
    return Target.model_validate_json(json.dumps(question["target"]))


def peak_resident_bytes() -> int | None:
    """Host memory of this process at its peak; what it has now where the system does not say."""
    for line in STATUS.read_text(encoding="utf-8").splitlines() if STATUS.exists() else ():
        name, _, rest = line.partition(":")
        if name == "VmHWM":
            return int(rest.split()[0]) * KIB
    return own_resident_bytes()


def _quietly(_: int, __: object) -> None:
    """Tells nobody."""


TOOLS: Final[dict[str, Callable[[Question], Peak]]] = {
    "full": by_full,
    "instant": by_instant,
    "mem_tracker": by_mem_tracker,
}


def main(tool: str) -> None:
    """Follow the model and print the figures."""
    torch.set_num_threads(1)
    question = json.loads(sys.stdin.read())
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    peak = TOOLS[tool](question)
    figures = {
        "peak_bytes": peak,
        "wall_s": time.perf_counter() - start_s,
        "cpu_s": time.process_time() - start_cpu_s,
        "resident_bytes": peak_resident_bytes(),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1])
