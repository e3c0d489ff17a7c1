"""Traces kept by what they depend on, so that the same step is traced once. No PyTorch here."""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from profiler.trace.documents import Target
from profiler.trace.record import TRACE_VERSION, Trace

DECIDING: Final = ("task", "training", "adapter", "runtime", "parallel")
"""Blocks of a scenario that a trace depends on; of the hardware only the target counts, of the model its config."""

PACKAGES: Final = ("torch", "transformers", "peft", "accelerate")
MAX_TRACES: Final = 32


def key_of(
    scenario_document: Mapping[str, Any],
    config: Mapping[str, Any],
    target: Target,
    *,
    instant: bool = False,
) -> str:
    """What a trace depends on, as a digest.

    Args:
        scenario_document: The scenario with every default filled in, as plain values.
        config: Keys of the model's config.json.
        target: The device whose step is followed.
        instant: Extended from short models; equal to the full trace, but kept apart from what stands for itself.
    """
    content = {
        "format": TRACE_VERSION,
        "instant": instant,
        "scenario": {name: scenario_document.get(name) for name in DECIDING},
        "config": dict(config),
        "target": target.model_dump(mode="json"),
        "packages": {name: _installed(name) for name in PACKAGES},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


class TraceCache:
    """The traces used last. Safe to use from any thread.

    Args:
        max_traces: How many are kept.
    """

    def __init__(self, max_traces: int = MAX_TRACES) -> None:
        self._max_traces = max_traces
        self._lock = threading.Lock()
        self._traces: OrderedDict[str, Trace] = OrderedDict()

    def get(self, key: str) -> Trace | None:
        """The trace of that key, None if it isn't kept."""
        with self._lock:
            if key in self._traces:
                self._traces.move_to_end(key)
            return self._traces.get(key)

    def put(self, key: str, trace: Trace) -> None:
        """Keep a trace; the one unused for longest makes room."""
        with self._lock:
            self._traces[key] = trace
            self._traces.move_to_end(key)
            while len(self._traces) > self._max_traces:
                self._traces.popitem(last=False)
