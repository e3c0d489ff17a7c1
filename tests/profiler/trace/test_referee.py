"""The trace against real CPU steps: every phase's peak, tensor bytes."""

from pathlib import Path
from typing import Any

import pytest

from tests.profiler.trace.cases import LONG, SHORT
from tests.profiler.trace.child_cases import run_cases

ROOT = Path(__file__).resolve().parents[3]
PHASES = {"rest", "forward", "loss", "backward", "optimizer_step"}
TOLERANCE_FRAC = 0.001
HOST_SCALAR_BYTES = 8
"""The trace leaves out what CUDA keeps on the host: optimizers' step counters, and a scalar beside them."""


def check(case: dict[str, Any]) -> None:
    real, traced = case["real"], case["traced"]
    assert real.keys() == traced.keys() == PHASES
    for phase, measured in real.items():
        missing = measured - traced[phase]
        assert abs(missing) <= TOLERANCE_FRAC * measured, phase
        assert 0 <= missing <= case["counters"] + HOST_SCALAR_BYTES, phase


@pytest.fixture(scope="module")
def short_cases() -> dict[str, dict[str, Any]]:
    return run_cases("referee", list(SHORT))


@pytest.mark.parametrize("name", SHORT)
def test_a_trace_counts_what_a_real_step_counts(name: str, short_cases: dict[str, dict[str, Any]]) -> None:
    check(short_cases[name])


@pytest.fixture(scope="module")
def long_cases() -> dict[str, dict[str, Any]]:
    return run_cases("referee", list(LONG))


@pytest.mark.long
@pytest.mark.parametrize("name", LONG)
def test_and_so_it_does_on_many_models(name: str, long_cases: dict[str, dict[str, Any]]) -> None:
    check(long_cases[name])


def test_there_are_as_many_cases_as_promised() -> None:
    assert len(SHORT) >= 12
    assert len(SHORT) + len(LONG) >= 40
