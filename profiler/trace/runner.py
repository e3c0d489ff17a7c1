"""Starts the child that traces and follows it, as a measurement is followed. Nothing here loads PyTorch."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from profiler.documents import Options
from profiler.events import Request, Result, parse_line
from profiler.job_types import ExitReason
from profiler.runner import Job, Patience
from profiler.trace.documents import TraceOptions
from profiler.trace.record import Trace, TraceError, trace_from

CHILD: Final = (sys.executable, "-m", "profiler.trace.child")


class TraceJob(Job):
    """A running or ended trace. Methods may be called from any thread, as those of `Job`."""

    def __init__(
        self, request: Request, options: TraceOptions, command: Sequence[str], patience: Patience
    ) -> None:
        self._trace: Trace | None = None
        self._problem = ""
        limits = Options(timeout_s=options.timeout_s, memory_limit_bytes=options.memory_limit_bytes)
        super().__init__(request, limits, command, patience)

    @property
    def trace(self) -> Trace | None:
        """The trace, None before it is there."""
        with self._lock:
            return self._trace

    def _on_line(self, line: bytes) -> None:
        event = parse_line(line)
        if not isinstance(event, Result):
            super()._on_line(line)
            return
        try:
            trace, problem = trace_from(event.report), ""
        except TraceError as error:
            trace, problem = None, str(error)
        with self._lock:
            self._trace, self._problem = trace, problem

    def _why(self, code: int) -> tuple[ExitReason, str]:
        if self._trace is not None and code == 0:
            return ExitReason.DONE, ""
        reason, detail = super()._why(code)
        return reason, detail or self._problem


class TraceRunner:
    """Starts traces.

    Args:
        command: What to start, as an argument list; the tracing child by default.
        patience: How long a child is waited for when it is to end.
    """

    def __init__(self, command: Sequence[str] = CHILD, patience: Patience | None = None) -> None:
        self._command = tuple(command)
        self._patience = patience or Patience()

    def start(
        self, scenario_document: Mapping[str, Any], config: Mapping[str, Any], options: TraceOptions
    ) -> TraceJob:
        """Start a trace. Never raises for a child that cannot be started: the job says so.

        Args:
            scenario_document: The scenario with every default filled in, as plain values.
            config: Keys of the model's config.json.
            options: How to trace.
        """
        request = Request(
            scenario=dict(scenario_document),
            config=dict(config),
            options=options.model_dump(mode="json"),
        )
        return TraceJob(request, options, self._command, self._patience)
