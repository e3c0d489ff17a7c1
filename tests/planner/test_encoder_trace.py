"""Steps of encoders and encoder-decoders: formulas beside traces as they were recorded, three of them made here."""

from functools import cache
from typing import Final

import pytest

from benchmarks.encoder_cases import ENCODER_RECORDS, STEPS, encoder_cases
from benchmarks.formula_records import Traced, installed, read_records
from benchmarks.formula_trace import FAR, NEAR, Compared, compare, traces
from hardware_db import load_tables
from planner.estimate import plan
from planner.scenario import Scenario

QUICK: Final = frozenset({
    "minilm-pretrain-full-sdpa-cast-bf16-sgd-8-256",
    "t5-lora-none-sdpa-bf16-foreach-4-256",
    "whisper-lora-none-sdpa-bf16-foreach-2-256",
})  # fmt: skip
FURTHER: Final = frozenset(case.name for case in encoder_cases()) - QUICK


@cache
def _rows() -> tuple[Compared, ...]:
    tables, (records, _) = load_tables(), read_records(ENCODER_RECORDS)
    return tuple(compare(case, records[case.name], tables) for case in encoder_cases())


def test_every_step_is_recorded_and_as_near_as_is_asked() -> None:
    """Of the peaks all within 0.5 %, of every category at them all within 2 %."""
    assert len(_rows()) == len(STEPS) >= 40
    assert [(row.name, row.error) for row in _rows() if abs(row.error) > NEAR] == []
    assert [(row.name, row.worst_category) for row in _rows() if abs(row.worst_category[1]) > FAR] == []


def test_every_phase_is_near() -> None:
    """Of no peak, but shown: none is further off than this."""
    worst = max(_rows(), key=lambda row: abs(row.phase_error(row.worst_phase)))
    assert abs(worst.phase_error(worst.worst_phase)) <= FAR, (worst.name, worst.worst_phase)


def test_no_step_says_that_its_activations_are_approximate() -> None:
    for case in encoder_cases():
        answer = plan(Scenario.model_validate(case.scenario), load_tables())
        reasons = {dict(issue.params).get("reason") for issue in answer.issues}
        assert "encoder_activations_approximated" not in reasons, case.name


@pytest.mark.parametrize(
    "names", [QUICK, pytest.param(FURTHER, marks=pytest.mark.long)], ids=["quick", "further"]
)
def test_steps_traced_here_have_the_peak_of_the_formulas_and_are_as_recorded(names: frozenset[str]) -> None:
    records, libraries = read_records(ENCODER_RECORDS)
    found = list(traces(case for case in encoder_cases() if case.name in names))
    assert len(found) == len(names)
    for case, trace in found:
        assert isinstance(trace, Traced), trace
        assert abs(compare(case, trace, load_tables()).error) <= NEAR, case.name
        if libraries == installed():
            assert trace == records[case.name], case.name
