"""How much of a step ranks spend talking: one more step under PyTorch's profiler, for its times alone."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

import torch
from torch.profiler import ProfilerActivity, profile

from profiler.report_parts import Communication

BACKENDS: Final = ("gloo:", "nccl:")
KERNEL: Final = "nccl"
MICROSECOND_S: Final = 1e-6


def communication_of(step: Callable[[], Any], device: str) -> Communication:
    """Run one step, and find when a collective was under way.

    On CUDA those are NCCL's kernels on the device, on CPU what gloo records of itself. Overlapping ones count once.

    Args:
        step: The step; every rank runs it.
        device: `cpu` or `cuda`.
    """
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    if device == "cuda":
        torch.cuda.synchronize()
    with profile(activities=activities) as seen:
        began_s = time.perf_counter()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        step_s = time.perf_counter() - began_s
    events = list(seen.events())
    named = [event for event in events if event.name.startswith(BACKENDS)]
    kernels = [event for event in events if device == "cuda" and _is_kernel(event)]
    spans = ((event.time_range.start, event.time_range.end) for event in (kernels or named))
    return Communication(
        time_s=united(spans) * MICROSECOND_S,
        step_s=step_s,
        calls=dict(Counter(event.name[:100] for event in named)),
    )


def _is_kernel(event: Any) -> bool:
    return KERNEL in event.name.lower() and str(event.device_type).endswith("CUDA")


def united(spans: Iterable[tuple[float, float]]) -> float:
    """Length of everything that is in at least one span."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
