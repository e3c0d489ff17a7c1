"""Two real ranks on gloo against their traces (FSDP2, DDP, tensor parallelism): every phase's peak.

Gloo has no reduce-scatter of its own: it copies the input, all-reduces the copy and splits it, and its thread may
hold the copy past the call. The tracker first sees that copy when it is split. NCCL, which a trace follows, has none.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.profiler.trace.child_cases import run_cases
from tests.profiler.trace.gloo_cases import CASES, RANKS

ROOT = Path(__file__).resolve().parents[3]
PHASES = {"rest", "forward", "loss", "backward", "optimizer_step"}
TOLERANCE_FRAC = 0.001
GLOO_COPY = "aten::split"
COUNTER = "aten::lift_fresh"


def bytes_of(alive: list[list[Any]], op: str) -> int:
    return sum(size for size, one, _, __ in alive if one == op)


def check(case: dict[str, Any]) -> None:
    """Less gloo's copy and the optimizer's counters on the host, a rank never holds more than its trace says."""
    for rank in range(RANKS):
        real, traced, as_gloo = case["real"][rank], case["traced"][rank], case["as_gloo"][rank]
        assert real.keys() == traced.keys() == PHASES
        for phase, moment in real.items():
            counters, copy = bytes_of(moment["alive"], COUNTER), bytes_of(moment["alive"], GLOO_COPY)
            without = moment["bytes"] - counters
            assert traced[phase] <= without, (rank, phase)
            late = copy + TOLERANCE_FRAC * without  # what gloo's thread lets go of only after the call
            assert without - traced[phase] <= late, (rank, phase)
            assert 0 <= without - as_gloo[phase] <= late, (rank, phase)


def test_a_rank_allocates_what_its_trace_says_and_gloos_copy() -> None:
    case = run_cases("gloo_referee", ["mixed"])["mixed"]
    check(case)
    backward = case["real"][0]["backward"]
    assert case["traced"][0]["backward"] < (1 - TOLERANCE_FRAC) * backward["bytes"]  # the copy is there
    assert bytes_of(backward["alive"], GLOO_COPY) > 0


@pytest.fixture(scope="module")
def long_cases() -> dict[str, dict[str, Any]]:
    return run_cases("gloo_referee", [name for name in CASES if name != "mixed"])


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in CASES if name != "mixed"])
def test_and_so_it_does_under_other_policies(name: str, long_cases: dict[str, dict[str, Any]]) -> None:
    check(long_cases[name])
