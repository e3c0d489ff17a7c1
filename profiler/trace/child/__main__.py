"""The child: `python -m profiler.trace.child`, started by `profiler.trace.runner`. One request in, events out."""

import json
from collections.abc import Mapping
from typing import Any

from planner.scenario import Scenario
from profiler.documents import Remark
from profiler.trace.documents import TraceOptions
from profiler.trace.traceable import why_not_traceable
from profiler.worker.child import Job, end, serve


def main() -> int:
    """Trace what one request asks for. Returns the exit code: 0 for a result or a refusal."""
    return serve(_options, _refusals, _tracing)


def _options(given: Mapping[str, Any]) -> TraceOptions:
    return TraceOptions.model_validate_json(json.dumps(given))


def _refusals(scenario: Scenario, _: TraceOptions) -> tuple[Remark, ...]:
    return why_not_traceable(scenario)


def _tracing() -> Job[TraceOptions]:
    from profiler.trace.child import session  # noqa: PLC0415  # takes seconds to load

    return session.serve


if __name__ == "__main__":
    end(main())
