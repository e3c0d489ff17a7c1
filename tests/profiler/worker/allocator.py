"""Peaks of a step's live bytes by PyTorch's own allocator events, with nothing at the dispatcher."""

import gc
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from profiler.worker.steps import Loop
from profiler.worker.workloads import Workload

MARK = "PHASE:"


def live_bytes(workload: Workload) -> int:
    """Parameters, buffers and optimizer states: what is alive between two steps, each storage once."""
    model = workload.model
    states = [x for optimizer in workload.optimizers() for s in optimizer.state.values() for x in s.values()]
    tensors = [*model.parameters(), *model.buffers(), *(x for x in states if isinstance(x, torch.Tensor))]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors}
    return sum(storage.nbytes() for storage in storages.values())


def allocator_peaks(workload: Workload) -> dict[str, int]:
    """Highest live bytes of each phase of a second step."""

    def mark(phase: str) -> None:
        with record_function(MARK + phase):
            pass

    loop = Loop(workload, mark)
    with loop.marking():
        loop.step()
        gc.collect()
        total = live_bytes(workload)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
            mark("rest")
            loop.step()
    events: list[Any] = list(recorded.profiler.kineto_results.events())
    phase, peaks = "rest", {"rest": total}
    for event in sorted(events, key=lambda e: e.start_ns()):
        if event.name() == "[memory]" and event.device_type() == torch.autograd.DeviceType.CPU:
            total += event.nbytes()
        elif event.name().startswith(MARK):
            phase = event.name().removeprefix(MARK)
        else:
            continue
        peaks[phase] = max(peaks.get(phase, 0), total)
    return peaks
