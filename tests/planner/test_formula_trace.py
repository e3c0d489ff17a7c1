"""The training formulas beside traces: twenty quick steps of `benchmarks.formula_trace`, which has them all."""

import pytest

from benchmarks.formula_cases import FACTORS, MODELS, PER_MODEL, cases, possible
from benchmarks.formula_trace import NEAR, Compared, compared, judged

CASES = {case.name: case for case in cases()}
QUICK = tuple(
    """
    TinyLlama-1.1B-Chat-v1.0-plain-fp16-none-eager-fused-qv-16-standard-2-512-2
    gemma-2b-trainer-cast-fp16-attention-eager-momentum-qv-standard-2-2048-1
    Llama-3.1-70B-trainer-bf16-full-sdpa-sgd-nf4-fused_linear-2-4096-1
    aya-23-8B-trainer-fp32-none-sdpa-sgd-whole-standard-4-1024-1
    Mistral-7B-v0.1-trainer-bf16-none-eager-foreach-nf4_dq-fused_linear-2-2048-1
    Qwen2.5-7B-trainer-cast-bf16-reentrant-sdpa-foreach-qv-16-fused_linear-2-1024-1
    Phi-3-mini-4k-instruct-plain-fp32-attention-sdpa-fused-all-standard-2-1024-2
    gemma-3-4b-pt-plain-fp16-none-sdpa-foreach-qv-standard-1-4096-1
    TinyLlama-1.1B-Chat-v1.0-trainer-bf16-none-sdpa-momentum-nf4-fused_linear-1-1024-1
    phi-2-plain-bf16-none-flash-momentum-nf4_dq-fused_linear-4-1024-2
    Qwen2.5-32B-plain-bf16-every2-flash-fused-all-dropout-standard-4-512-1
    Llama-3.1-8B-plain-fp16-attention-eager-foreach-all-dropout-fused_linear-4-512-1
    glm-4-9b-hf-plain-cast-bf16-attention-sdpa-backward-qv-16-standard-4-2048-1
    gpt2-xl-plain-cast-bf16-none-sdpa-single-all-fused_linear-4-512-1
    Qwen1.5-MoE-A2.7B-trainer-fp16-every2-sdpa-sgd-whole-standard-1-4096-1
    SmolLM2-360M-plain-bf16-full-flash-single-qv-16-fused_linear-2-4096-2
    gemma-2-2b-trainer-fp32-none-eager-backward-qv-standard-2-4096-1
    pythia-1b-plain-cast-bf16-every3-eager-momentum-qv-standard-2-512-1
    Qwen2.5-0.5B-trainer-fp32-every3-sdpa-adafactor-whole-standard-4-512-2
    granite-3.1-2b-base-plain-cast-fp16-none-eager-single-all-dropout-standard-2-4096-1
    """.split()  # noqa: SIM905  # a table of words
)


def test_twenty_steps_have_the_traces_peak_and_its_categories() -> None:
    rows = list(compared(CASES[name] for name in QUICK))
    assert [row for row in rows if isinstance(row, str)] == []
    off = {
        row.name: (row.error, row.worst_category)
        for row in rows
        if isinstance(row, Compared) and max(abs(row.error), abs(row.worst_category[1])) > NEAR
    }
    assert off == {}


def test_every_step_can_be_run_and_every_value_of_every_factor_is_there() -> None:
    assert len(CASES) == PER_MODEL * len(MODELS) >= 200
    for factor, values in FACTORS.items():
        for value in values:
            assert any(case.drawn[factor] == value for case in CASES.values()), (factor, value)
    assert all(possible(case.model, case.drawn) for case in CASES.values())


def test_what_is_beyond_the_limits_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.formula_trace import Sums  # noqa: PLC0415

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
