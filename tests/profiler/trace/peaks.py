"""A trace as a tracker on a CPU would count it."""

from profiler.trace.record import Trace
from profiler.trace.spans import Spans


def tensor_peaks(trace: Trace) -> dict[str, int]:
    """Highest live bytes of each phase of the last step, storages alone: no blocks, no workspaces of the process."""
    live = 0
    levels: list[int] = []
    sizes = trace.storages.bytes
    for event in trace.events:
        live += sizes[event] if event >= 0 else -sizes[-event - 1]
        levels.append(live)
    peaks: dict[str, int] = {}
    for phase, span in Spans(trace.marks).spans(trace.steps, len(levels)):
        peaks[phase] = max(peaks.get(phase, 0), *(levels[index] for index in span))
    return peaks
