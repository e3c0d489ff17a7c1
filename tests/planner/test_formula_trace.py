"""The training formulas beside traces: a few small steps traced here, all others as they were recorded."""

from pathlib import Path

import pytest

from benchmarks.formula_cases import FACTORS, MODELS, PER_MODEL, cases, possible
from benchmarks.formula_moments import nearest
from benchmarks.formula_records import Sums, Traced, installed, read_records, write_records
from benchmarks.formula_trace import NEAR, Compared, chosen_cases, compare, judged, recorded, traces
from hardware_db import load_tables

CASES = {case.name: case for case in cases()}
QUICK = tuple(
    """
    TinyLlama-1.1B-Chat-v1.0-plain-fp16-none-eager-fused-qv-16-standard-2-512-2
    gemma-2b-trainer-cast-fp16-attention-eager-momentum-qv-standard-2-2048-1
    Llama-3.1-70B-trainer-bf16-full-sdpa-sgd-nf4-fused_linear-2-4096-1
    Qwen2.5-7B-trainer-cast-bf16-reentrant-sdpa-foreach-qv-16-fused_linear-2-1024-1
    """.split()  # noqa: SIM905  # a table of words
)
FURTHER = tuple(
    """
    aya-23-8B-trainer-fp32-none-sdpa-sgd-whole-standard-4-1024-1
    Phi-3-mini-4k-instruct-plain-fp32-attention-sdpa-fused-all-standard-2-1024-2
    phi-2-plain-bf16-none-flash-momentum-nf4_dq-fused_linear-4-1024-2
    """.split()  # noqa: SIM905  # a table of words
)


@pytest.mark.parametrize(
    "names", [QUICK, pytest.param(FURTHER, marks=pytest.mark.long)], ids=["quick", "further"]
)
def test_small_steps_traced_here_have_the_peak_of_the_formulas_and_are_as_recorded(
    names: tuple[str, ...],
) -> None:
    tables, (records, libraries) = load_tables(), read_records()
    found = list(traces(CASES[name] for name in names))
    assert len(found) == len(names)
    for case, trace in found:
        assert isinstance(trace, Traced), trace
        row = compare(case, trace, tables)
        assert max(abs(row.error), abs(row.worst_category[1])) <= NEAR, (case.name, row.worst_category)
        if libraries == installed():
            assert trace == records[case.name], case.name


def test_formulas_and_recorded_traces_agree_in_peak_and_categories() -> None:
    """95 % within 0.5 %, all within 2 %: of the peaks, and of every category at them."""
    rows, missing = recorded()
    assert not missing
    assert len(rows) >= 200
    assert judged(rows, 0) == 0


def test_what_is_compared_with_a_trace_is_a_moment_as_full_as_the_fullest() -> None:
    traced = Sums(categories={"weights": 500, "activations": 500})
    fullest, equal = Sums(categories={"weights": 1001}), Sums(categories={"weights": 501, "activations": 499})
    emptier = Sums(categories={"weights": 500, "activations": 480})
    assert nearest((fullest, equal, emptier), traced, NEAR) == equal.categories
    assert nearest((fullest, emptier), traced, NEAR) == fullest.categories


def test_records_are_written_as_they_are_read(tmp_path: Path) -> None:
    trace = Traced(phases={"rest": Sums(categories={"weights": 1000})}, rounding_bytes={"rest": 24})
    path = tmp_path / "records.json"
    assert read_records(path) == ({}, {})
    write_records({"one": trace}, path)
    assert read_records(path) == ({"one": trace}, installed())


def test_a_third_of_the_steps_is_traced_unless_more_is_asked_for() -> None:
    assert 60 <= len(chosen_cases([], every=False)) <= 70
    assert len(chosen_cases([], every=True)) == len(CASES)
    assert [case.model for case in chosen_cases(["pythia-1b"], every=False)] == [
        "EleutherAI/pythia-1b"
    ] * PER_MODEL


def test_every_step_can_be_run_and_every_value_of_every_factor_is_there() -> None:
    assert len(CASES) == PER_MODEL * len(MODELS) >= 200
    for factor, values in FACTORS.items():
        for value in values:
            assert any(case.drawn[factor] == value for case in CASES.values()), (factor, value)
    assert all(possible(case.model, case.drawn) for case in CASES.values())


def test_what_is_beyond_the_limits_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    def row(*, rest: int, peak: int) -> Compared:
        phases = ("rest", "forward", "loss", "backward", "optimizer_step")
        traced = {phase: Sums(categories={"weights": 1000}) for phase in phases}
        predicted = {
            phase: Sums(categories={"weights": peak if phase == "loss" else rest}) for phase in phases
        }
        return Compared(name="one", traced=traced, predicted=predicted, rounding_bytes=0)

    assert judged([row(rest=1000, peak=1000)], 0) == 0
    assert judged([row(rest=1000, peak=1000)], 1) == 1
    assert judged([row(rest=1000, peak=1010)], 0) == 1
    assert judged([], 0) == 1
    assert "Target missed." in capsys.readouterr().out
