"""`python -m tests.profiler.trace.rank_traces CASE...`: traces of single ranks, one line of JSON a case.

Runs in a process of its own, since it loads PyTorch.
"""

import json
import sys
from typing import Any

from planner.scenario import Scenario
from profiler.trace.child.session import make_trace
from profiler.trace.documents import Target
from profiler.trace.record import Trace
from profiler.worker.workloads import CannotBuildError
from tests.profiler.scenarios import scenario
from tests.profiler.trace.peaks import tensor_peaks
from tests.profiler.trace.rank_cases import ALL


def totals(trace: Trace) -> dict[str, dict[str, int]]:
    """By phase of the last step: the most bytes of each kind that were alive at once."""
    storages, marks = trace.storages.storages(), iter([*trace.marks, None])
    mark, following = None, next(marks)
    alive: dict[str, int] = {}
    most: dict[str, dict[str, int]] = {}
    for index, event in enumerate(trace.events):
        while following is not None and following.event <= index:
            mark, following = following, next(marks)
        number, sign = (event, 1) if event >= 0 else (-event - 1, -1)
        kind = storages[number].kind or "other"
        name = storages[number].detail if kind in {"communication", "optimizer_state"} else kind
        alive[name] = alive.get(name, 0) + sign * storages[number].bytes
        if mark is not None and mark.step == trace.steps:
            seen = most.setdefault(mark.phase, {})
            for one, size in alive.items():
                seen[one] = max(seen.get(one, 0), size)
    return most


def bucket_sizes(trace: Trace) -> list[int]:
    """Sizes of the buckets that are alive at the end, in order of birth."""
    storages = trace.storages.storages()
    gone = {-event - 1 for event in trace.events if event < 0}
    return [one.bytes for n, one in enumerate(storages) if one.detail == "ddp_buckets" and n not in gone]


def report(name: str) -> dict[str, Any]:
    """What tests look at."""
    config, changes, part = ALL[name]
    document = scenario(config, **changes)
    try:
        trace = make_trace(Scenario.model_validate(document), document, config, Target(part=part))
    except CannotBuildError as error:
        return {"refused": error.remark.code, "field": error.remark.field}
    return {
        "peaks": tensor_peaks(trace),
        "most": totals(trace),
        "buckets": bucket_sizes(trace),
        "params_total": trace.params_total,
    }


def main(names: list[str]) -> None:
    """Print each case."""
    for name in names:
        print(json.dumps({"case": name, **report(name)}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
