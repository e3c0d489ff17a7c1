"""Which settings a trace can follow, before anything is started. No PyTorch.

What cannot be followed as asked is refused by field; nothing is silently replaced.
"""

from collections.abc import Iterator

from planner.scenario import Scenario
from profiler.documents import Remark
from profiler.runnable import why_not_runnable
from profiler.trace.division import casts_by_unit, why_not_divided
from profiler.trace.quantized_remarks import lifted, only_packed


def why_not_traceable(scenario: Scenario) -> tuple[Remark, ...]:
    """One remark per field that a trace cannot follow; empty if it can.

    Args:
        scenario: The scenario with every default of its runtime filled in.
    """
    remarks = [remark for remark in why_not_runnable(scenario, "cuda") if not _lifted(remark, scenario)]
    if scenario.is_training:
        remarks += [*why_not_divided(scenario), *_only_here(scenario), *only_packed(scenario)]
    return tuple(remarks)


def _lifted(remark: Remark, scenario: Scenario) -> bool:
    """What a step on this machine cannot do and a trace can.

    Several devices, formats that FSDP2 casts to, packed bases, LitGPT's loop.
    """
    by_unit = remark.code == "compute_needs_autocast" and casts_by_unit(scenario)
    return by_unit or remark.code == "several_devices" or lifted(remark, scenario)


def _only_here(scenario: Scenario) -> Iterator[Remark]:
    """What a real step can and a trace cannot."""
    if scenario.runtime.compile:
        yield _refuse("compile_not_traced", "runtime.compile", allowed="false")


def _refuse(code: str, field: str, allowed: str) -> Remark:
    return Remark(code=code, field=field, params={"given": True, "allowed": allowed})
