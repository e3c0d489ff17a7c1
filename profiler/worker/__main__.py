"""The child: `python -m profiler.worker`, started by `profiler.runner`. One request in, events out."""

from planner.scenario import Scenario
from profiler.documents import Options, Remark
from profiler.rank_place import rank_place, why_not_runnable_here
from profiler.worker.child import Job, end, serve


def main() -> int:
    """Measure what one request asks for. Returns the exit code: 0 for a result or a refusal."""
    return serve(Options.model_validate, _refusals, _measurement)


def _refusals(scenario: Scenario, options: Options) -> tuple[Remark, ...]:
    return why_not_runnable_here(scenario, options.device, rank_place())


def _measurement() -> Job[Options]:
    from profiler.worker import session  # noqa: PLC0415  # takes seconds to load

    return session.measure


if __name__ == "__main__":
    end(main())
