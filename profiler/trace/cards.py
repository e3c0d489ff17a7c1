"""Which cards a traced step runs on."""

from collections.abc import Iterable

from profiler.allocator.replay import fits
from profiler.allocator.settings import AllocatorSettings
from profiler.trace.answer import Answer
from profiler.trace.record import Trace


def smallest_bytes(
    trace: Trace, settings: AllocatorSettings, unlimited: Answer, capacities_bytes: Iterable[int]
) -> int | None:
    """The smallest of several capacities that the run comes to its end with, None if it does with none.

    Args:
        trace: The run.
        settings: The allocator's.
        unlimited: The answer without a limit: below its tensors nothing runs, from its reserved peak on all.
        capacities_bytes: What the cards can give the allocator.
    """
    events = None
    for capacity in sorted(capacities_bytes):
        if capacity >= unlimited.peak_reserved_bytes:
            return capacity
        if capacity < unlimited.peak_tensor_bytes:
            continue
        events = events or list(trace.requests())
        if fits(events, settings, capacity):
            return capacity
    return None
