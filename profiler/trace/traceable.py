"""Which settings a trace can follow, before anything is started. No PyTorch.

What cannot be followed as asked is refused by field; nothing is silently replaced.
"""

from collections.abc import Iterator

from planner.scenario import Scenario
from profiler.documents import Remark
from profiler.runnable import why_not_runnable


def why_not_traceable(scenario: Scenario) -> tuple[Remark, ...]:
    """One remark per field that a trace cannot follow; empty if it can.

    Args:
        scenario: The scenario with every default of its runtime filled in.
    """
    return (*why_not_runnable(scenario, "cuda"), *(_only_here(scenario) if scenario.is_training else ()))


def _only_here(scenario: Scenario) -> Iterator[Remark]:
    """What a real step can and a trace cannot."""
    if scenario.runtime.compile:
        yield _refuse("compile_not_traced", "runtime.compile", allowed="false")


def _refuse(code: str, field: str, allowed: str) -> Remark:
    return Remark(code=code, field=field, params={"given": True, "allowed": allowed})
